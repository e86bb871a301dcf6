/**
 * What the service and its decoder process tell each other over the IPC channel. The image itself goes to the decoder's
 * standard input.
 */

/** Asks for a thumbnail of the next `size` bytes of the standard input. */
export interface DecodeRequest {
  readonly size: number
  readonly width: number
  /** The thumbnail's largest height in pixels. */
  readonly height: number
}

export type DecodeResult =
  /** The thumbnail, as WebP. */
  | { readonly kind: 'thumbnail'; readonly image: Uint8Array }
  | { readonly kind: 'unsupported'; readonly reason: string }
  /** `reason` is a sentence for the client. */
  | { readonly kind: 'too-large'; readonly reason: string }

export type DecoderMessage =
  /** The decoder has started and can take an image. */
  | { readonly kind: 'ready' }
  /** A result, and how many bytes of resident memory the decoder is left with. */
  | (DecodeResult & { readonly memory: number })
  /** The image uses too much memory or time; `reason` is a sentence for the client. The decoder ends. */
  | { readonly kind: 'exhausted'; readonly reason: string }

/** Reads a message of the decoder; null when it is none. */
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

/** Reads a request of the service. */
export const parseDecodeRequest = (message: unknown): DecodeRequest => {
  if (typeof message === 'object' && message !== null)
    if ('size' in message && 'width' in message && 'height' in message)
      return { size: Number(message.size), width: Number(message.width), height: Number(message.height) }
  throw new TypeError('Not a decode request')
}
