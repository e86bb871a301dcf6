/** Where a tag is among those of a new task, as a JSON Pointer into it; ids are compared in lower case. */
export const tagPointer = (
  { tag_ids = [] }: { readonly tag_ids?: readonly string[] },
  tagId: string,
): string => `/tag_ids/${tag_ids.findIndex((id) => id.toLowerCase() === tagId.toLowerCase())}`
