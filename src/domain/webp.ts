/** Those of 10,000 frames, for which a decoder takes a second; for twice as many it takes four. */
const mostChunks = 20_000

const headerLength = 12
/** A chunk begins with its type and its length, and a frame of an animation with how it is shown. */
const lengthAt = 4
const chunkOverhead = 8
const frameOverhead = 16
const frameType = Buffer.from('ANMF').readUInt32LE()

/**
 * Whether there are so many chunks in a WebP image (RFC 9649) that it is not made to be seen: a decoder keeps each of them,
 * in some hundred bytes where there may be eight, and looks for each frame among all of them. What is in a frame is counted
 * too, and read on from, as a decoder does.
 */
export const isCrowdedWebp = (image: Buffer): boolean => {
  let count = 0
  for (let at = headerLength; at + chunkOverhead <= image.length && count <= mostChunks; count += 1) {
    const length = image.readUInt32LE(at + lengthAt)
    const isFrame = image.readUInt32LE(at) === frameType
    at += chunkOverhead + (isFrame ? frameOverhead : length + (length % 2))
  }
  return count > mostChunks
}
