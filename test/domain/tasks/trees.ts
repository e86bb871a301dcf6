import t from 'tap'
import { refusalOfParent, subtaskChanges, subtasksOf } from '../../../src/domain/tasks/trees.ts'

/** Trees of tasks, written as `child < parent`. */

interface Node {
  readonly id: string
  readonly parent_id: string | null
  readonly status: string
  readonly isTrashed: boolean
}

const tree = (text: string, change: Partial<Node> = {}): Map<string, Node> => {
  const nodes = new Map<string, Node>()
  for (const edge of text.split(', ')) {
    const [id = '', parent_id = null] = edge.split(' < ')
    nodes.set(id, { id, parent_id, status: 'todo', isTrashed: false, ...change })
  }
  return nodes
}

t.test('the subtasks of a task are all tasks below it, parents first', async (t) => {
  const nodes = tree('a, b < a, c < b, d < a, x, y < x')
  const below = (id: string) => subtasksOf(nodes.values(), id).map((node) => node.id)
  t.strictSame(below('a'), ['b', 'd', 'c'])
  t.strictSame(below('c'), [])
  t.strictSame(below('unknown'), [])
  t.strictSame(subtasksOf(tree('a < b, b < a').values(), 'a').length, 1, 'a cycle ends')
})

t.test('a parent is refused for a cycle, or for a ninth level', async (t) => {
  const chain = (name: string, length: number): string =>
    Array.from({ length }, (_, n) => (n === 0 ? `${name}0` : `${name}${n} < ${name}${n - 1}`)).join(', ')
  const cases: readonly (readonly [string, string, string, string | null])[] = [
    ['a, b', 'a', 'b', null],
    ['a, b < a', 'a', 'a', 'parent_cycle'],
    ['a, b < a, c < b', 'a', 'c', 'parent_cycle'],
    ['a, b < a, c < b', 'c', 'a', null],
    [`${chain('u', 7)}, x`, 'x', 'u6', null],
    [`${chain('u', 8)}, x`, 'x', 'u7', 'parent_too_deep'],
    [`${chain('u', 4)}, ${chain('l', 4)}`, 'l0', 'u3', null],
    [`${chain('u', 4)}, ${chain('l', 5)}`, 'l0', 'u3', 'parent_too_deep'],
  ]
  for (const [text, moved, parent, expected] of cases)
    t.equal(refusalOfParent(tree(text), moved, parent), expected, `${moved} < ${parent} in ${text}`)
})

t.test('parents count subtasks that are where they are', async (t) => {
  const present = tree('p, q, a < p, b < a')
  const after = (change: (nodes: Map<string, Node>) => void) => {
    const nodes = new Map(present)
    change(nodes)
    return Object.fromEntries(subtaskChanges(present, nodes))
  }
  const set = (id: string, change: Partial<Node>) => (nodes: Map<string, Node>) => {
    const node = nodes.get(id)
    if (node) nodes.set(id, { ...node, ...change })
  }
  t.strictSame(after(set('a', { status: 'done' })), { p: { subtasks: 0, open_subtasks: -1 } }, 'done')
  t.strictSame(
    after(set('a', { parent_id: 'q' })),
    { p: { subtasks: -1, open_subtasks: -1 }, q: { subtasks: 1, open_subtasks: 1 } },
    'another parent',
  )
  t.strictSame(
    after(set('a', { isTrashed: true })),
    { p: { subtasks: -1, open_subtasks: -1 } },
    'trashed alone',
  )
  const trashAll = (nodes: Map<string, Node>): void => {
    for (const id of ['p', 'a', 'b']) set(id, { isTrashed: true })(nodes)
  }
  t.strictSame(after(trashAll), {}, 'in the trash, a parent counts those that went with it')
  t.strictSame(
    after((nodes) => nodes.set('new', { id: 'new', parent_id: 'b', status: 'done', isTrashed: false })),
    { b: { subtasks: 1, open_subtasks: 0 } },
    'a new one',
  )
})
