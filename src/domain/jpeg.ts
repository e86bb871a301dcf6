/** More than there are by chance in 32 MiB of anything, where a photograph has a few dozen. */
const mostSegments = 20_000

/**
 * Whether there may be so many application segments (ITU-T T.81, B.2.4.6) in a JPEG image that it is not made to be seen: a
 * decoder keeps each of them, in some hundred bytes where there may be four. What looks like one is counted, wherever it
 * stands, so that nobody can hide one.
 */
export const isCrowdedJpeg = (image: Buffer): boolean => {
  let count = 0
  for (let at = image.indexOf(0xff); at !== -1 && count <= mostSegments; at = image.indexOf(0xff, at + 1)) {
    const marker = image[at + 1] ?? 0
    if (marker >= 0xe0 && marker <= 0xef) count += 1
  }
  return count > mostSegments
}
