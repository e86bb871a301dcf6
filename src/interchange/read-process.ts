import { flushCompileCache } from 'node:module'
import { endFirstWithoutMemory } from '../concurrency/memory-shortage.ts'
import { checkDrafts } from './check.ts'
import { inspect, readFormat, strictFormats } from './formats/formats.ts'
import { type ReadBatch, type ReadOptions, UnreadableFile } from './import-file.ts'
import type { ReadAnswer, ReadRequest } from './read-protocol.ts'
import type { InterchangeRecord, ReportLine } from './records.ts'

/** The process that reads a file for read.ts: one answer for each request, so that it is never far ahead of the service. */

endFirstWithoutMemory()

/** Records and lines of the report. */
const batchSize = 250

const answer = (answer: ReadAnswer): void => void process.send?.(answer)

async function* batchesOf(path: string, options: ReadOptions): AsyncGenerator<ReadBatch, void> {
  const items = checkDrafts(readFormat(path, options), {
    isStrict: strictFormats.has(options.format),
    timeZone: options.timeZone,
  })
  let records: InterchangeRecord[] = []
  let report: ReportLine[] = []
  for await (const item of items) {
    if ('code' in item) report.push(item)
    else records.push(item)
    if (records.length + report.length < batchSize) continue
    yield { records, report }
    records = []
    report = []
  }
  yield { records, report }
}

let batches: AsyncGenerator<ReadBatch, void> | null = null

const answerTo = async (request: ReadRequest): Promise<ReadAnswer> => {
  const { path } = request
  if (request.kind === 'inspect')
    return { kind: 'inspection', inspection: await inspect(path, request.known) }
  batches ??= batchesOf(path, request.options)
  const { value: batch } = await batches.next()
  return batch === undefined ? { kind: 'end' } : { kind: 'batch', batch }
}

/** The kind of an error, and where it was thrown. Its message can have text of the file, which is not for the log. */
const placeOf = (error: unknown): string => {
  if (!(error instanceof Error)) return typeof error
  const frame = error.stack?.split('\n').find((line) => line.startsWith('    at '))
  return `${error.name}${frame?.replace('    at', ' at') ?? ''}`
}

const onRequest = async (request: ReadRequest): Promise<void> => {
  try {
    answer(await answerTo(request))
  } catch (error) {
    if (error instanceof UnreadableFile)
      answer({ kind: 'unreadable', why: error.why, message: error.message })
    else answer({ kind: 'unreadable', why: 'damaged', message: `The file cannot be read: ${placeOf(error)}` })
  }
}

process.on('message', (request) => void onRequest(request as ReadRequest))
// The service has ended.
process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'))
// Node writes the cache at exit, but this process ends by SIGKILL.
flushCompileCache()
