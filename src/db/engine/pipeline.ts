import type { Transaction } from './transaction.ts'

/** Sends a statement and returns its result as a promise. Anything else than a promise says that there is nothing to send. */
type Member<T = unknown> = () => T | Promise<T>

type Results<M extends Readonly<Record<string, Member>>> = {
  readonly [Name in keyof M]: Awaited<ReturnType<M[Name]>>
}

/**
 * Runs statements of a transaction in the order of `members`, and returns their results by name. None waits for another: they are
 * sent one after the other, and each sees what the ones before it wrote. What a member sends after its first answer comes after the first
 * statements of all others.
 *
 * A member sends a statement before it awaits anything. One that may have nothing to send says so by returning no promise:
 * `audit: () => isOwn || recordAudit(…)`.
 *
 * @throws the first error of a member
 * @throws Error when a member has returned a promise but not sent a statement. Those after it were not called
 */
export const pipeline = async <M extends Readonly<Record<string, Member>>>(
  db: Transaction,
  members: M,
): Promise<Results<M>> => {
  const named = Object.entries(members)
  const results = await inOrder(db, named)
  return Object.fromEntries(named.map(([name], index) => [name, results[index]])) as Results<M>
}

/** The same for any number of items, with one member for each of them. Without items, there is nothing to send. */
export const pipelineEach = <Item, T>(
  db: Transaction,
  items: readonly Item[],
  member: (item: Item) => T | Promise<T>,
): readonly T[] | Promise<readonly T[]> =>
  items.length === 0
    ? []
    : inOrder(
        db,
        items.map((item, index) => [String(index), () => member(item)]),
      )

const inOrder = <T>(db: Transaction, members: readonly (readonly [string, Member<T>])[]): Promise<T[]> => {
  const results: (T | Promise<T>)[] = []
  for (const [name, member] of members) {
    const before = db.sent()
    const result = call(member)
    const isUnsent = result instanceof Promise && db.sent() === before
    results.push(isUnsent ? failUnsent(name, result) : result)
    if (isUnsent) break
  }
  return Promise.all(results)
}

/** Calls a member. What it throws must not keep the results of those before it from being awaited. */
const call = <T>(member: Member<T>): T | Promise<T> => {
  try {
    return member()
  } catch (error) {
    return Promise.reject(error)
  }
}

/** The error of a member that was refused before it could send anything says more. */
const failUnsent = async (name: string, result: Promise<unknown>): Promise<never> => {
  await result
  throw new Error(`The member ${name} of a pipeline awaited something before it sent a statement`)
}
