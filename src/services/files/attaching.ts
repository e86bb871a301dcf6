import {
  type AttachableTask,
  insertAttachment,
  type NewAttachment,
  viewAttachment,
} from '../../db/files/attachments.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { chargeAttachment, lockStorageUse, type StorageUse } from '../../db/shared/quotas.ts'
import { recordEventOfTask } from '../../db/shared/record-event.ts'
import { countAttachment, lockTask, type TaskFacts } from '../../db/tasks/facts.ts'
import { finishUpload, lockLeased } from '../../db/files/uploads.ts'
import type { Principal } from '../../domain/shared/permissions.ts'
import type { UploadLease } from '../../domain/files/uploads.ts'
import { problems } from '../../problems/problems.ts'
import { type AddedToTask, additionText, parseAddition } from '../tasks/additions.ts'
import type { OpContext } from '../shared/context.ts'
import { expectActive, expectMay, expectSeen } from '../shared/expectations.ts'
import { idempotent } from '../shared/idempotency.ts'

/** What attaching a file in one request and by a resumable upload have in common. */

/** What events say about an attachment. */
export const recordedFields = ({
  file_name,
  content_type,
  size,
}: Pick<NewAttachment, 'file_name' | 'content_type' | 'size'>) => ({ file_name, content_type, size })

/**
 * The task, if the caller may attach a file to it.
 *
 * @throws Problem 404, 403, 409
 */
export const expectAttachable = (task: TaskFacts | null): AttachableTask => {
  const attachable = expectMay('attachment.add', expectSeen('attachment.see', task))
  expectActive(attachable)
  return attachable
}

/** The bytes that a file claims of a storage quota. */
interface QuotaClaim {
  /** Size in bytes, or a lower bound if it is not known yet. */
  readonly size: number
  /** Maximum total size in bytes of the attachments of a user without their own quota; null for no limit. */
  readonly quota: number | null
}

/**
 * Requires that the quota of the caller has room for a file. An empty file fits any quota.
 *
 * @throws Problem 401 if the caller was deleted meanwhile, 422
 */
export const expectRoom = (use: StorageUse | null, { size, quota: defaultQuota }: QuotaClaim): void => {
  if (use === null) throw problems.invalidToken()
  const { used, own_quota } = use
  const quota = own_quota === null ? defaultQuota : own_quota || null
  if (quota !== null && size > 0 && used + size > quota)
    throw problems.quotaExceeded({ resource: 'attachment_bytes', quota, used, size })
}

/** How a stored file came. */
interface Arrival {
  readonly taskId: string
  /** As in `QuotaClaim`. */
  readonly quota: number | null
  /** The resumable upload that becomes the attachment; null if the file came in one request. */
  readonly upload: UploadLease | null
}

/** Makes a stored file an attachment, if the caller still may. If the result is `replayed`, the file was not used. */
export const addAttachment = async (
  ctx: OpContext<Principal>,
  file: NewAttachment,
  { taskId, quota, upload }: Arrival,
): Promise<AddedToTask> =>
  parseAddition(
    await idempotent(ctx, async (tx, id) => {
      const { use, seen, isHeld } = await pipeline(tx.db, {
        use: () => lockStorageUse(tx),
        seen: () => lockTask(tx, taskId),
        isHeld: () => upload === null || lockLeased(tx, upload),
      })
      const task = expectAttachable(seen)
      expectRoom(use, { size: file.size, quota })
      if (!isHeld) throw problems.notFound()
      const changes = { before: {}, after: recordedFields(file) }
      const { taskVersion, view } = await pipeline(tx.db, {
        attachment: () => insertAttachment(tx, id, task, file),
        event: () => recordEventOfTask(tx, 'attachment.created', { taskId, resourceId: id }, changes),
        taskVersion: () => countAttachment(tx, taskId, 1),
        upload: () => upload !== null && finishUpload(tx, upload, { attachment_id: id }),
        use: () => chargeAttachment(tx, file.size),
        view: () => viewAttachment(tx, id),
      })
      return { json: additionText({ json: view.json, taskVersion }) }
    }),
  )
