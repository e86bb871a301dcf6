/** More than there are by chance in 32 MiB of anything, where a photograph has a few dozen. */
const mostSegments = 20_000

/**
 * Whether there may be so many application segments (ITU-T T.81, B.2.4.6) in a JPEG image that it is not made to be seen: a
 * decoder keeps each of them, in some hundred bytes where there may be four. What looks like one is counted, wherever it
 * stands, so that nobody can hide one.
 */
export const isCrowdedJpeg = (image: Buffer): boolean => {
  let count = 0
  // Not by indexOf, which takes seconds where every byte may begin one.
  for (let at = 1; at < image.length; at += 1) {
    if (image[at - 1] === 0xff && isApplicationSegment(image[at] ?? 0)) count += 1
  }
  return count > mostSegments
}

const isApplicationSegment = (marker: number): boolean => marker >= 0xe0 && marker <= 0xef
