import t from 'tap'
import type { ManagedProject, ProjectFacts } from '../../../src/db/projects/rows.ts'
import { noIntegrationFields } from '../../../src/domain/shared/integration-fields.ts'
import type { Relation } from '../../../src/domain/shared/permissions.ts'
import { expectMay, expectSeen } from '../../../src/services/shared/expectations.ts'

const facts = (relations: readonly Relation[]): ProjectFacts => ({
  id: '0199c0df-0000-7000-8000-000000000001',
  name: 'A project',
  description: '',
  color: null,
  archived_at: null,
  ...noIntegrationFields,
  version: 1,
  relations,
})

t.test('a write takes only a resource on which the caller was found to have the permission', async (t) => {
  const project = facts(['viewer', 'commenter', 'editor', 'manager'])
  const managed: ManagedProject = expectMay('project.manage', project)
  // @ts-expect-error It was not checked.
  const unchecked: ManagedProject = project
  // @ts-expect-error Another permission was checked.
  const edited: ManagedProject = expectMay('project.edit', project)
  for (const one of [managed, unchecked, edited]) t.equal(one, project)
})

t.test('404 for what the caller cannot see, 403 for what they may not do', async (t) => {
  t.throws(() => expectSeen('project.see', null), /does not exist/)
  t.throws(() => expectSeen('project.see', facts([])), /does not exist/)
  const seen = expectSeen('project.see', facts(['viewer']))
  t.throws(() => expectMay('project.manage', seen), /do not have permission/)
  t.equal(expectMay('project.manage', facts(['admin'])).version, 1)
})
