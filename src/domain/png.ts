/** A chunk's type as a number: there may be millions of chunks, and strings would take the longest. */
const typeNumber = (type: string): number => Buffer.from(type, 'latin1').readUInt32BE()

/** What the look of an image may depend on (PNG, third edition, §11). */
const visibleTypes = ['IHDR', 'PLTE', 'tRNS', 'cHRM', 'gAMA', 'iCCP', 'sRGB', 'cICP', 'eXIf', 'IDAT', 'IEND']
const visibleChunks = new Set(visibleTypes.map(typeNumber))

const signatureLength = 8
/** A chunk begins with its length and its type, and ends with a checksum. */
const typeAt = 4
const contentAt = 8
const chunkOverhead = 12

/**
 * Moves together what is to be seen of a PNG image and leaves out the rest, such as text: a decoder unpacks all of it,
 * and some hundred bytes of it may become megabytes. Done in the image's own memory, of which the answer is a part.
 */
export const visiblePng = (image: Buffer): Buffer => {
  let kept = signatureLength
  let at = signatureLength
  while (at + contentAt <= image.length) {
    const end = Math.min(at + chunkOverhead + image.readUInt32BE(at), image.length)
    if (visibleChunks.has(image.readUInt32BE(at + typeAt))) {
      if (kept < at) image.copyWithin(kept, at, end)
      kept += end - at
    }
    at = end
  }
  return image.subarray(0, kept)
}
