import type { FastifyReply } from 'fastify'

/** Emitted on a response that begins to stream events. An idle stream uses almost no resources of the process. */
const streaming = Symbol('streaming')

/**
 * Calls `end` when a request stops running: when its response was sent, its connection has closed, or it begins to stream
 * events, which has no end of its own.
 */
export const onRequestEnd = ({ raw }: FastifyReply, end: () => void): void => {
  const endOnce = (): void => {
    raw.off('close', endOnce)
    raw.off(streaming, endOnce)
    end()
  }
  raw.on('close', endOnce)
  raw.on(streaming, endOnce)
}

/** Calls `begin` when a request begins to stream events, and `end` when its connection closes afterwards. */
export const onStreaming = ({ raw }: FastifyReply, begin: () => void, end: () => void): void => {
  raw.once(streaming, () => {
    begin()
    raw.once('close', end)
  })
}

/** Stops counting a request as running. */
export const startStreaming = ({ raw }: FastifyReply): void => {
  raw.emit(streaming)
}
