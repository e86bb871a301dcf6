/** A position in the order of events: after the event with this transaction and ordinal. */
export interface EventPosition {
  /** The epoch of the history, as in change cursors. */
  readonly epoch: number
  readonly changedIn: bigint
  readonly ordinal: number
}

/** Before all events. */
export const beginningOf = (epoch: number): EventPosition => ({ epoch, changedIn: 0n, ordinal: 0 })

const pattern = /^(\d{1,10})\.(\d{1,20})\.(\d{1,16})$/

/** Encodes a position as opaque text. It is not sealed: it is valid for every user and reveals nothing about events. */
export const encodeEventPosition = ({ epoch, changedIn, ordinal }: EventPosition): string =>
  Buffer.from(`${epoch}.${changedIn}.${ordinal}`).toString('base64url')

/** Decodes the text of `encodeEventPosition`; null for any other text. */
export const decodeEventPosition = (text: string): EventPosition | null => {
  const parts = pattern.exec(Buffer.from(text, 'base64url').toString('latin1'))
  if (parts === null) return null
  const [, epoch = '', changedIn = '', ordinal = ''] = parts
  const position = { epoch: Number(epoch), changedIn: BigInt(changedIn), ordinal: Number(ordinal) }
  const isInRange =
    position.epoch <= maxEpoch && position.changedIn <= maxXid && Number.isSafeInteger(position.ordinal)
  return isInRange && encodeEventPosition(position) === text ? position : null
}

/** The largest int and xid8 of PostgreSQL. */
const maxEpoch = 2 ** 31 - 1
const maxXid = 2n ** 64n - 1n

/** Whether `position` is after `other`, in the same epoch. */
export const isAfter = (position: EventPosition, other: EventPosition): boolean =>
  position.changedIn === other.changedIn
    ? position.ordinal > other.ordinal
    : position.changedIn > other.changedIn
