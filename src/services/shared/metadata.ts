import {
  faultOfMetadata,
  patchedMetadata,
  type Metadata,
  type MetadataPatch,
} from '../../domain/shared/integration-fields.ts'
import { escapePointer, problems } from '../../problems/problems.ts'

/**
 * What the contract's schema does not check of metadata, or of a patch of it.
 *
 * @throws Problem 400
 */
export const expectMetadata = (metadata: MetadataPatch, pointer = '/metadata'): void => {
  const fault = faultOfMetadata(metadata)
  if (fault === null) return
  throw problems.invalidField(
    fault.key === null ? pointer : `${pointer}/${escapePointer(fault.key)}`,
    fault.message,
  )
}

/**
 * The metadata after a request: what it sends is merged into the present one, or takes its place.
 *
 * @throws Problem 400
 */
export const metadataAfter = (
  present: Metadata,
  sent: MetadataPatch | undefined,
  replaces: boolean,
): Metadata => {
  if (sent === undefined) return present
  const patched = patchedMetadata(present, sent, { replaces })
  expectMetadata({ ...sent, ...patched })
  return patched
}
