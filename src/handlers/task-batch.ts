import type { components } from '../../generated/openapi.ts'
import { quoteETag } from '../contract/operation.ts'
import { type BatchKind, batchKinds } from '../domain/tasks/batch.ts'
import { Problem, problemDocument, problemWithin } from '../problems/problems.ts'
import { type BatchResult, runBatch } from '../services/tasks/batch.ts'
import type { Handlers } from './handlers.ts'

interface Deps {
  /** Prefix of the URLs in problems; empty when PUBLIC_URL is unset. */
  readonly publicUrl: string
  /** The quota of the installation; null is unlimited. */
  readonly taskQuota: number | null
}

type Schemas = components['schemas']
type Batch = Omit<Schemas['TaskBatch'], 'atomic' | 'dry_run'>

/** The batch operation of the contract's tag `tasks`. */
export const taskBatchHandlers = ({ publicUrl, taskQuota }: Deps) =>
  ({
    async batchTasks(ctx, { body, path }) {
      const { atomic = false, dry_run: dryRun = false, ...batch } = body
      const { requestId, results, replayed } = await runBatch(ctx, batch, { atomic, dryRun, taskQuota })
      const ended = batchKinds
        .flatMap((kind) => results.filter((result) => result.kind === kind))
        .map((result) => ({ result, problem: problemOfItem(result) }))
      if (atomic) throwFirst(ended.flatMap(({ problem }) => problem ?? []))

      const resultOf = ({ result, problem }: (typeof ended)[number]): Schemas['TaskBatchResult'] => {
        const { kind, id, version } = result
        return {
          status: problem?.status ?? successStatuses[kind],
          task_id: id ?? taskIdOf(batch, result),
          etag: version === null ? null : quoteETag(version),
          ...(problem !== null && { problem: problemDocument(problem, publicUrl, path, requestId) }),
        }
      }
      const of = (kind: BatchKind) => ended.filter(({ result }) => result.kind === kind).map(resultOf)
      const lists = { create: of('create'), update: of('update'), delete: of('delete') }
      return { status: 200, body: { ...lists, tag: of('tag'), untag: of('untag') }, replayed }
    },
  }) satisfies Partial<Handlers>

/** The statuses of the corresponding single operations. */
const successStatuses: Readonly<Record<BatchKind, number>> = {
  create: 201,
  update: 200,
  delete: 204,
  tag: 204,
  untag: 204,
}

const taskIdOf = (batch: Batch, { kind, index }: BatchResult): string | null =>
  kind === 'create' ? null : (batch[kind]?.[index]?.task_id ?? null)

/** The problem of a failed item, with pointers into the batch; null for a successful item. */
const problemOfItem = ({ kind, index, problem }: BatchResult): Problem | null => {
  if (problem === null) return null
  const item = `/${kind}/${index}`
  const isAboutField = problem.errors !== null
  return problemWithin(kind === 'update' && isAboutField ? `${item}/patch` : item, problem)
}

/** An atomic batch fails with the problem of the first item that fails, with its conflicts, and lists the others in `errors`. */
const throwFirst = (failures: readonly Problem[]): void => {
  const [first] = failures
  if (first === undefined) return
  const errors = failures.flatMap((failure) => failure.errors ?? [])
  throw new Problem(first.code, first.message, { errors, members: first.members })
}
