import t from 'tap'
import { ConstraintViolation } from '../../../src/db/engine/errors.ts'
import { pipeline, pipelineEach } from '../../../src/db/engine/pipeline.ts'
import type { Runner } from '../../../src/db/engine/transaction.ts'
import { openTestDatabase } from '../../fixture/database.ts'

const { db } = await openTestDatabase(t)
await db.run('create table ledger (id int primary key)', [])
const insert = (runner: Runner, id: number) =>
  runner.run('insert into ledger values ($1::int) returning id', [id])
const idsFrom = async (runner: Runner, first: number): Promise<unknown[]> => {
  const rows = await runner.run(
    'select id from ledger where id between $1::int and $1::int + 9 order by id',
    [first],
  )
  return rows.map(({ id }) => id)
}

t.test(
  'members are sent in their order before the first answer, and return their results by name',
  async (t) => {
    let answered = 0
    const ids: readonly number[] = []
    const results = await db.transaction(
      (tx) =>
        pipeline(tx, {
          first: () => insert(tx, 1).finally(() => (answered += 1)),
          between: () => idsFrom(tx, 1),
          none: () => ids.length > 0 && insert(tx, 2),
          each: () => pipelineEach(tx, [3, 4], (id) => insert(tx, id).then(() => answered)),
          nothing: () => pipelineEach(tx, ids, (id) => insert(tx, id)),
          last: () => {
            t.equal(answered, 0, 'nothing was awaited')
            return idsFrom(tx, 1)
          },
        }),
      null,
    )
    const { between, none, each, nothing, last } = results
    t.strictSame(
      { between, none, nothing, last },
      { between: [1], none: false, nothing: [], last: [1, 3, 4] },
    )
    t.equal(each.length, 2)
  },
)

t.test('a member that awaits something before it sends its statement fails the transaction', async (t) => {
  const late = async (runner: Runner): Promise<unknown> => {
    await Promise.resolve()
    return insert(runner, 12)
  }
  const called: string[] = []
  const failing = db.transaction(
    (tx) =>
      pipeline(tx, {
        early: () => insert(tx, 11),
        late: () => late(tx),
        after: () => called.push('after'),
      }),
    null,
  )
  await t.rejects(failing, /The member late of a pipeline/)
  await t.rejects(
    db.transaction(async (tx) => pipelineEach(tx, [13, 14], () => late(tx)), null),
    /The member 0 of a pipeline/,
  )
  t.strictSame(called, [])
  t.strictSame(await idsFrom(db, 11), [])
})

t.test('the first member that fails decides, whether it has sent a statement or not', async (t) => {
  const refused = new Error('refused')
  const violating = db.transaction(
    (tx) =>
      pipeline(tx, {
        first: () => insert(tx, 21),
        again: () => insert(tx, 21),
        aborted: () => insert(tx, 22),
      }),
    null,
  )
  await t.rejects(violating, ConstraintViolation, 'not that the transaction is aborted')
  const refusals = [
    () => Promise.reject(refused),
    () => {
      throw refused
    },
  ]
  for (const refusal of refusals) {
    const refusing = db.transaction(
      (tx) => pipeline(tx, { first: () => insert(tx, 23), refusal, after: () => insert(tx, 24) }),
      null,
    )
    await t.rejects(refusing, refused)
  }
  t.strictSame(await idsFrom(db, 21), [])
})
