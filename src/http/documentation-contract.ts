import type { Contract, ContractOperation } from '../contract/contract.ts'
import { permissions } from '../domain/shared/permissions.ts'
import type { RequiredScope } from '../domain/shared/scopes.ts'

type Paths = Readonly<Record<string, Readonly<Record<string, { readonly description?: string }>>>>

/**
 * The contract for the documentation pages, as JSON. The pages do not show extensions, so each operation's description begins with its
 * stability, if it is a preview, and ends with its scope and permission. `base`, the path of PUBLIC_URL, becomes the server URL.
 */
export const documentationContract = ({ document, operations }: Contract, base: string): string => {
  const paths = { ...(document.paths as Paths) }
  for (const operation of operations.values()) {
    const { path, method } = operation
    const name = method.toLowerCase()
    const { [name]: described, ...others } = paths[path] ?? {}
    const description = [
      ...(operation.isPreview ? [previewNotice] : []),
      described?.description ?? '',
      requirements(operation),
    ].join('\n\n')
    paths[path] = { ...others, [name]: { ...described, description } }
  }
  return JSON.stringify({ ...document, servers: [{ url: base || '/' }], paths })
}

const previewNotice =
  '**Preview:** a minor version may change or remove this operation, with a line in its release notes.'

const requirements = ({ scope, permission }: ContractOperation): string => {
  if (scope === 'none') return '**Access:** anyone, without a token.'
  const granted = permissions[permission].map((relation) => relation.replaceAll('_', ' ')).join(', ')
  return `**Permission:** \`${permission}\` (${granted}). **Scope:** ${describeScope(scope)}.`
}

const describeScope = (scope: RequiredScope): string =>
  scope === 'session' ? 'a session; API tokens are not accepted' : `\`${[scope].flat().join('` or `')}\``
