const headerLength = 13
/** Of the logical screen and of an image: whether a table of colours follows, and the size of it. */
const screenFlagsAt = 10
const imageFlagsAt = 9
const hasTable = 0x80
const tableSize = 0x07

const extension = 0x21
const imageDescriptor = 0x2c
const trailer = 0x3b
const descriptorLength = 10

/**
 * A GIF image as if it ended with its first frame: a decoder keeps every frame, in more than a hundred bytes where there
 * may be fifteen. One that is damaged before that stays as it is. Done in the image's own memory, of which the answer is a
 * part.
 *
 * Source: Graphics Interchange Format, version 89a, appendix B.
 */
export const firstGifFrame = (image: Buffer): Buffer => {
  let at = headerLength + lengthOfTable(image[screenFlagsAt])
  while (image[at] === extension) at = behindBlocks(image, at + 2)
  if (image[at] !== imageDescriptor) return image
  // The byte behind the table is the size of the codes that follow.
  const end = behindBlocks(image, at + descriptorLength + lengthOfTable(image[at + imageFlagsAt]) + 1)
  if (end >= image.length) return image
  image[end] = trailer
  return image.subarray(0, end + 1)
}

/** In bytes: three for each colour. */
const lengthOfTable = (flags = 0): number => (flags & hasTable ? 3 * 2 ** ((flags & tableSize) + 1) : 0)

/** Where a sequence of blocks ends. Each begins with its length, and an empty one is the last. */
const behindBlocks = (image: Buffer, start: number): number => {
  let at = start
  for (let length = image[at]; length !== undefined && length > 0; length = image[at]) at += 1 + length
  return at + 1
}
