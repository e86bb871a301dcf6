import { Counter, Gauge, Histogram, Registry } from 'prom-client'
import t from 'tap'
import { metricsOfWorkers } from '../src/observe/metrics.ts'

/** What a worker has counted when it has had so many requests, and runs that many. */
const countsOf = async (requests: number) => {
  const registry = new Registry()
  const options = { help: 'help', registers: [registry] }
  new Counter({ ...options, name: 'requests_total' }).inc(requests)
  new Gauge({ ...options, name: 'running' }).set(requests)
  const histogram = new Histogram({ ...options, name: 'seconds', buckets: [1] })
  for (let count = 0; count < requests; count += 1) histogram.observe(0.5)
  return registry.getMetricsAsJSON()
}

t.test('what workers have counted is kept when they end', async (t) => {
  const running = new Map<number, Awaited<ReturnType<typeof countsOf>> | null>()
  const source = metricsOfWorkers(async () => running)
  const read = async () => {
    const text = await source.metrics()
    const figure = (name: string) => Number(new RegExp(`^${name} (\\d+)$`, 'm').exec(text)?.[1])
    return [figure('requests_total'), figure('seconds_count'), figure('running')]
  }
  running.set(1, await countsOf(10))
  running.set(2, await countsOf(5))
  t.strictSame(await read(), [15, 15, 15])
  running.set(2, null)
  t.strictSame(await read(), [15, 15, 15], 'one that does not answer has done what it had')
  running.delete(2)
  t.strictSame(await read(), [15, 15, 10], 'and runs nothing any more when it has ended')
  for (let worker = 3; worker < 6; worker += 1) {
    running.set(worker, await countsOf(1))
    await read()
    running.delete(worker)
  }
  t.strictSame(await read(), [18, 18, 10])
})
