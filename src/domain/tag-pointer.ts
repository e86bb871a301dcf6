/** The JSON Pointer to a tag in a new task. */
export const tagPointer = (
  { tag_ids = [] }: { readonly tag_ids?: readonly string[] },
  tagId: string,
): string => `/tag_ids/${tag_ids.indexOf(tagId)}`
