import { once } from 'node:events'
import { registerHooks } from 'node:module'

/**
 * Runs test files one after another in one process, each as a subtest, so that modules are loaded, the contract is parsed and code is
 * compiled only once. The parent sends the name of each file, and an empty name after the last.
 *
 * In a test file, the default export of `tap` is the subtest of the file, so its teardowns end before the next file starts.
 */

/** Sent to the parent when the worker is ready for the next file. */
export interface Ready {
  /** Null before the first file. */
  readonly passed: boolean | null
  /** Processor time of the last file in seconds, without processes that it started. */
  readonly processorTime: number
}

const folder = new URL('../../test/', import.meta.url).href
const timeout = Number(process.env.TAP_TIMEOUT) * 1000
const currentFile = 'taskwright.test'
let count = 0
let usedBefore = process.cpuUsage()

registerHooks({
  resolve(specifier, context, nextResolve) {
    if (specifier === 'async-hook-domain')
      return { url: new URL('error-domain.ts', import.meta.url).href, shortCircuit: true }
    const isTestFile = context.parentURL?.startsWith(folder) === true
    if (specifier !== 'tap' || !isTestFile) return nextResolve(specifier, context)
    // The number makes a new module for each file.
    const source = `export default globalThis[Symbol.for('${currentFile}')] // ${count}`
    return { url: `data:text/javascript,${encodeURIComponent(source)}`, shortCircuit: true }
  },
})

// After the hooks, which apply to it.
const { default: t } = await import('tap')
t.setTimeout(0)
await runNext(null)
process.disconnect()

async function runNext(passed: boolean | null): Promise<void> {
  const message: Promise<readonly unknown[]> = once(process, 'message')
  const { user, system } = process.cpuUsage(usedBefore)
  process.send?.({ passed, processorTime: (user + system) / 1e6 } satisfies Ready)
  // tap does not keep the process alive while it waits for a message.
  process.channel?.ref()
  const [file] = await message
  if (typeof file !== 'string' || file === '') return
  count += 1
  usedBefore = process.cpuUsage()
  const results = await t.test(file, { timeout }, async (t) => {
    const failOnLeak = (warning: Error): void => {
      if (warning.name === 'MaxListenersExceededWarning') t.fail(String(warning.stack))
    }
    process.on('warning', failOnLeak)
    t.teardown(() => void process.off('warning', failOnLeak))
    Object.assign(globalThis, { [Symbol.for(currentFile)]: t })
    await import(new URL(`../../${file}`, import.meta.url).href)
  })
  await runNext(results?.ok === true)
}
