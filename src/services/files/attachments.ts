import type { Readable } from 'node:stream'
import type { CreatedLink, CreateLink, NewLink } from '../../auth/file-links.ts'
import type { FileForm } from '../../contract/files.ts'
import {
  type AttachmentFile,
  lockAttachment,
  removeAttachment,
  selectAttachmentFile,
  selectTaskAttachments,
} from '../../db/files/attachments.ts'
import { pipeline } from '../../db/engine/pipeline.ts'
import { readStorageUse } from '../../db/shared/quotas.ts'
import { recordEventOfTask } from '../../db/shared/record-event.ts'
import { countAttachment, readTask } from '../../db/tasks/facts.ts'
import type { Page, PageRequest } from '../../domain/shared/pages.ts'
import type { BearerPrincipal, Principal } from '../../domain/shared/permissions.ts'
import type { Jobs } from '../../jobs/registry.ts'
import { putWithTypeDetection } from '../../storage/content-type.ts'
import type { ByteRange, Storage } from '../../storage/storage.ts'
import type { AddedToTask } from '../tasks/additions.ts'
import { addAttachment, expectAttachable, expectRoom, recordedFields } from './attaching.ts'
import { type OpContext, transaction } from '../shared/context.ts'
import { expectActive, expectFound, expectMay, expectSeen, expectTag } from '../shared/expectations.ts'
import { mayBeRepeat, withContent } from '../shared/idempotency.ts'
import { openUnlessDeleted } from './open-file.ts'
import { discardFile, keepIfUsed } from './stored-files.ts'

interface Deps {
  readonly storage: Storage
  readonly jobs: Jobs
  readonly createLink: CreateLink
  readonly attachmentMaxBytes: number
  /** Maximum total size of a user's attachments in bytes; null for no limit. */
  readonly attachmentQuotaBytes: number | null
}

/** A file to send. `open` opens all of it, or a range. */
export interface Download {
  readonly file: AttachmentFile
  readonly open: (range?: ByteRange) => Promise<Readable>
}

/** A link to an attachment, and its file. */
export interface AttachmentLink extends CreatedLink {
  readonly file: AttachmentFile
}

export interface Attachments {
  /** Receives a file and attaches it to a task. */
  attachFile(
    ctx: OpContext<Principal>,
    input: { readonly taskId: string; readonly form: FileForm },
  ): Promise<AddedToTask>
  /** Finds the file of an attachment. */
  download(ctx: OpContext<Principal>, attachmentId: string): Promise<Download>
  /** Creates a link to an attachment that the caller can see. Links are not stored: the token has all data. */
  createLink(ctx: OpContext<BearerPrincipal>, link: NewLink): Promise<AttachmentLink>
  /** Deletes an attachment. Returns the version that its task has then. */
  delete(ctx: OpContext<Principal>, attachmentId: string): Promise<number>
}

export const createAttachments = ({
  storage,
  jobs,
  createLink,
  attachmentMaxBytes,
  attachmentQuotaBytes,
}: Deps): Attachments => {
  return {
    async attachFile(ctx, { taskId, form }) {
      const quota = attachmentQuotaBytes
      // Before the file is received; decided under locks later.
      // oxlint-disable-next-line eslint/no-restricted-properties -- Not in a transaction.
      const [task, use] = await Promise.all([readTask(ctx, taskId), readStorageUse(ctx)])
      expectAttachable(task)
      // A replay needs no free quota, and whether the request is a replay is known only once the file has been received.
      if (!mayBeRepeat(ctx)) expectRoom(use, { size: form.minSize, quota })
      // As small as possible, since the storage allocates memory by the maximum size.
      const maxBytes = Math.min(attachmentMaxBytes, form.maxSize)
      const {
        fileName,
        contentType: declaredType,
        stored,
      } = await form.receive(
        (content) => putWithTypeDetection(storage, content, { maxBytes, minBytes: form.minSize }),
        (file) => discardFile(storage, file),
      )
      const { key: storage_key, size, sha256, detectedContentType, guessedContentType } = stored
      const content_type = declaredType ?? guessedContentType
      const file = {
        file_name: fileName,
        content_type,
        detected_content_type: detectedContentType,
        size,
        sha256,
        storage_key,
      }
      const received = withContent(ctx, [taskId, fileName, content_type, sha256])
      const attach = () => addAttachment(received, file, { taskId, quota, upload: null })
      return keepIfUsed(storage, stored, attach, ({ replayed }) => !replayed)
    },

    async download(ctx, attachmentId) {
      const find = () => selectAttachmentFile(ctx, attachmentId)
      const file = expectFound(await find())
      return {
        file,
        open: (range) => openUnlessDeleted(() => storage.open(file.storage_key, range), find),
      }
    },

    async createLink(ctx, link) {
      const file = expectFound(await selectAttachmentFile(ctx, link.resourceId))
      return { ...createLink(ctx.principal, link), file }
    },

    delete: (ctx, id) =>
      transaction(ctx, async (tx) => {
        const seen = expectSeen('attachment.see', await lockAttachment(tx, id))
        const attachment = expectMay('attachment.delete', seen)
        expectTag(tx, attachment.sha256)
        expectActive(attachment)
        const { task_id: taskId } = attachment
        const changes = { before: recordedFields(attachment), after: {} }
        const { taskVersion } = await pipeline(tx.db, {
          attachment: () => removeAttachment(tx, attachment),
          event: () => recordEventOfTask(tx, 'attachment.deleted', { taskId, resourceId: id }, changes),
          taskVersion: () => countAttachment(tx, taskId, -1),
        })
        tx.afterCommit(() => jobs.wake('remove_deleted_files'))
        return taskVersion
      }),
  }
}

/** A page of the attachments of a task. @throws Problem 404 */
export const listTaskAttachments = async (
  ctx: OpContext<Principal>,
  taskId: string,
  page: PageRequest,
): Promise<Page> => expectFound(await selectTaskAttachments(ctx, { taskId, page }))
