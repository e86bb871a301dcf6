import type { FastifyRequest } from 'fastify'

/** The media type of a piece of a file (tus 1.0.0). */
export const pieceType = 'application/offset+octet-stream'

/** Whether a body follows the head of a request (RFC 9112 §6.3). */
export const hasBody = (headers: FastifyRequest['headers']): boolean =>
  headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0
