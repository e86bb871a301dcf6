/** Whether an error of the system has a code, such as ENOENT. */
export const hasCode = (error: unknown, code: string): boolean =>
  error instanceof Error && 'code' in error && error.code === code

/** Turns the error of a file that is not there into undefined, and throws any other. */
export const ignoreMissing = (error: unknown): undefined => {
  if (!hasCode(error, 'ENOENT')) throw error
}
