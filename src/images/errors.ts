/** The file is not an image of a supported format, or it is damaged. */
export class UnsupportedImage extends Error {
  override readonly name = 'UnsupportedImage'

  constructor(options?: ErrorOptions) {
    super('The file is not an image that can be decoded', options)
  }
}

/** Decoding the image would take more than one image may. The message says more than what, in a sentence for the client. */
export class ImageTooLarge extends Error {
  override readonly name = 'ImageTooLarge'
}

/** The decoder ended in the middle of an image, for a reason that may not lie in the image. */
export class DecoderCrashed extends Error {
  override readonly name = 'DecoderCrashed'
}

/** No decoder could be started. */
export class DecoderUnavailable extends Error {
  override readonly name = 'DecoderUnavailable'
}

/** The caller has too many thumbnails in the queue. */
export class TooManyThumbnails extends Error {
  override readonly name = 'TooManyThumbnails'
}

/** The queue is full of other callers' thumbnails. */
export class ThumbnailQueueFull extends Error {
  override readonly name = 'ThumbnailQueueFull'
}
