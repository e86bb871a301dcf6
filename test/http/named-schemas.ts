import t from 'tap'
import { asArray, asObject, loadContract } from '../../src/contract/contract.ts'
import { projectRoles } from '../../src/domain/shared/project-roles.ts'

/** What the contract has at several places has one named schema, so that generated clients have one type for it. */

const { document } = loadContract()
const schemas = asObject(asObject(document.components).schemas)

/** The name of the schema that a property refers to; undefined if it has one of its own. */
const nameOf = (property: unknown): unknown => {
  const { $ref, allOf } = asObject(property)
  const reference = $ref ?? asObject(asArray(allOf ?? [{}])[0]).$ref
  return typeof reference === 'string' ? reference.split('/').at(-1) : undefined
}

/** The names of the schemas of `role` and `direct_role`, by schema. Read-only fields of requests are ignored, whatever they have. */
const roles = Object.entries(schemas).flatMap(([schema, node]) =>
  Object.entries(asObject(asObject(node).properties ?? {}))
    .filter(([name, property]) => /^(direct_)?role$/.test(name) && asObject(property).readOnly !== true)
    .map(([name, property]) => [`${schema}.${name}`, nameOf(property)] as const),
)

t.test('every role of a project or team has a named schema', (t) => {
  const expected = {
    'Project.role': 'NullableProjectRole',
    'ProjectMember.role': 'ProjectRole',
    'ProjectMember.direct_role': 'NullableProjectRole',
    'ProjectMemberSet.role': 'ProjectRoleChoice',
    'ProjectTeam.role': 'ProjectRole',
    'ProjectTeamSet.role': 'ProjectRoleChoice',
    'Team.role': 'NullableTeamRole',
    'TeamMember.role': 'TeamRole',
    'TeamMemberSet.role': 'TeamRoleChoice',
    'Invitation.role': 'ProjectRole',
    'InvitationCreate.role': 'ProjectRoleChoice',
    'InvitationPreview.role': 'ProjectRole',
    'EventValues.role': 'ProjectRole',
  }
  const ofUsers = /^User(Create|Replace|Patch)?\./
  t.strictSame(Object.fromEntries(roles.filter(([place]) => !ofUsers.test(place))), expected)
  t.end()
})

t.test('the schemas of a role have the same values', (t) => {
  const valuesOf = (name: string) => {
    const schema = asObject(schemas[name])
    return schema['x-extensible-enum'] ?? schema.enum
  }
  for (const [name, values] of [
    ['ProjectRole', projectRoles],
    ['TeamRole', ['member', 'manager']],
  ] as const)
    for (const one of [name, `Nullable${name}`, `${name}Choice`]) t.strictSame(valuesOf(one), values, one)
  t.end()
})

/** The places of texts that are an id or a word, by their pattern. */
const idsOrWords = (node: unknown, place: readonly string[] = []): string[] => {
  if (typeof node !== 'object' || node === null) return []
  const { pattern } = node as { readonly pattern?: unknown }
  if (typeof pattern === 'string' && /^\^\(\w+\|.*\{12\}\)\$$/.test(pattern)) return [place.join('/')]
  return Object.entries(node).flatMap(([name, inner]) => idsOrWords(inner, [...place, name]))
}

t.test('what takes an id or a word has a schema with both in its name', (t) => {
  const names = ['UserIdOrMe', 'NullableUserIdOrMe', 'ProjectIdOrNone', 'SectionIdOrNone', 'ParentIdOrNone']
  t.strictSame(
    idsOrWords(document),
    names.map((name) => `components/schemas/${name}`),
  )
  t.end()
})
