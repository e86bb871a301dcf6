/** The messages between the service and the decoder process. The image itself is sent to the process's standard input. */

/** Requests a thumbnail of the image in the next `size` bytes of the standard input. */
export interface DecodeRequest {
  readonly size: number
  readonly width: number
  /** Maximum height of the thumbnail in pixels. */
  readonly height: number
}

export type DecodeResult =
  /** The thumbnail, as WebP. */
  | { readonly kind: 'thumbnail'; readonly image: Uint8Array }
  | { readonly kind: 'unsupported'; readonly reason: string }
  /** `reason` is for the client. */
  | { readonly kind: 'too-large'; readonly reason: string }

export type DecoderMessage =
  /** The decoder is ready for an image. */
  | { readonly kind: 'ready' }
  /** A result, and the decoder's resident memory afterwards in bytes. */
  | (DecodeResult & { readonly memory: number })
  /** The image exceeds the limits of memory or time; `reason` is for the client. The decoder ends. */
  | { readonly kind: 'exhausted'; readonly reason: string }

/** Parses a message of the decoder; null if it is malformed. */
export const parseDecoderMessage = (message: unknown): DecoderMessage | null => {
  if (typeof message !== 'object' || message === null || !('kind' in message)) return null
  const { kind } = message
  if (kind === 'ready') return { kind }
  if (kind === 'exhausted' && 'reason' in message) return { kind, reason: String(message.reason) }
  const memory = 'memory' in message ? Number(message.memory) : 0
  if (kind === 'thumbnail' && 'image' in message && message.image instanceof Uint8Array)
    return { kind, memory, image: message.image }
  if ((kind === 'unsupported' || kind === 'too-large') && 'reason' in message)
    return { kind, memory, reason: String(message.reason) }
  return null
}

export const parseDecodeRequest = (message: unknown): DecodeRequest => {
  if (typeof message === 'object' && message !== null)
    if ('size' in message && 'width' in message && 'height' in message)
      return { size: Number(message.size), width: Number(message.width), height: Number(message.height) }
  throw new TypeError('Not a decode request')
}
