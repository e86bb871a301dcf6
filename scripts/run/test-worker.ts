import { once } from 'node:events'
import { readFileSync } from 'node:fs'
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

// The library of browser types has it, but no other file needs that library.
declare const WebAssembly: { readonly Module: new (bytes: Uint8Array) => object }

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

// V8 shares the compiled functions of a WebAssembly module between threads while the module is referenced, so embedded databases
// reuse the functions that earlier ones compiled. This saves a fifth of the processor time of a small file.
const wasm = new URL('pglite.wasm', import.meta.resolve('@electric-sql/pglite'))
const heldModule = new WebAssembly.Module(readFileSync(wasm))

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
    Object.assign(globalThis, { [Symbol.for(currentFile)]: t, heldModule })
    await import(new URL(`../../${file}`, import.meta.url).href)
  })
  await runNext(results?.ok === true)
}
