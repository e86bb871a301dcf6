/** The file is not an image of a supported format, or is damaged. */
export class UnsupportedImage extends Error {
  override readonly name = 'UnsupportedImage'

  constructor(options?: ErrorOptions) {
    super('The file is not an image that can be decoded', options)
  }
}

/** The image exceeds a limit of size, memory or time. The message is for the client. */
export class ImageTooLarge extends Error {
  override readonly name = 'ImageTooLarge'
}

/** The decoder ended while decoding, not necessarily because of the image. */
export class DecoderCrashed extends Error {
  override readonly name = 'DecoderCrashed'
}

export class DecoderUnavailable extends Error {
  override readonly name = 'DecoderUnavailable'
}

/** The caller has too many waiting thumbnails. */
export class TooManyThumbnails extends Error {
  override readonly name = 'TooManyThumbnails'
}

/** The queue is full, or the request has waited too long. */
export class ThumbnailQueueFull extends Error {
  override readonly name = 'ThumbnailQueueFull'
}
