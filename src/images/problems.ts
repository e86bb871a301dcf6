import { type MapError, problems } from '../problems/problems.ts'
import {
  DecoderUnavailable,
  ImageTooLarge,
  ThumbnailQueueFull,
  TooManyThumbnails,
  UnsupportedImage,
} from './errors.ts'

/** Maps the errors of thumbnails. */
export const imageProblem: MapError = (error) => {
  if (error instanceof TooManyThumbnails) return problems.tooManyThumbnails()
  if (error instanceof UnsupportedImage) return problems.unsupportedImage(error)
  if (error instanceof ImageTooLarge) return problems.imageTooLarge(error.message)
  if (error instanceof ThumbnailQueueFull || error instanceof DecoderUnavailable)
    return problems.serviceUnavailable(
      'Thumbnails cannot be created right now. Retry in a few seconds.',
      error,
    )
  return null
}
