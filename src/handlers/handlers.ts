import type { HandlersWith } from '../contract/operation.ts'
import type { OpContext } from '../services/shared/context.ts'

/** The handlers of all operations. */
export type Handlers = HandlersWith<OpContext['db']>
