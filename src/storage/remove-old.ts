/**
 * Removes those of the files that were last written to before `before`, and resolves to how many there were. `remove`
 * answers whether there was anything to remove. One that fails does not keep the others; the first failure is thrown
 * when all were tried.
 */
export const removeOld = async <File extends { readonly modifiedAt: Date }>(
  files: AsyncIterable<File>,
  before: Date,
  remove: (file: File) => Promise<boolean>,
): Promise<number> => {
  let removed = 0
  let failure: { readonly error: unknown } | null = null
  for await (const file of files) {
    if (file.modifiedAt >= before) continue
    try {
      if (await remove(file)) removed += 1
    } catch (error) {
      failure ??= { error }
    }
  }
  if (failure !== null) throw failure.error
  return removed
}
