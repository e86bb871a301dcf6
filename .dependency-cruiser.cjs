// The folders that each folder of src may import. Imports point one way: a folder imports only folders listed above it.
// .oxlintrc.json has the rules for packages and globals.

const mayImport = {
  'data-dir': [],
  domain: [],
  concurrency: [],
  config: ['domain'],
  problems: ['domain'],
  contract: ['domain'],
  interchange: ['domain', 'concurrency'],
  'db/schema': ['domain'],
  'db/engine': ['data-dir', 'domain', 'concurrency', 'db/schema'],
  postgres: ['data-dir', 'concurrency', 'db/engine'],
  'db/statements': ['domain', 'db/schema', 'db/engine'],
  'db/access': ['domain', 'db/schema', 'db/statements'],
  'db/lists': ['domain', 'db/schema', 'db/engine', 'db/statements', 'db/access'],
  db: [
    'domain',
    'concurrency',
    'problems',
    'interchange',
    'db/schema',
    'db/engine',
    'db/statements',
    'db/access',
    'db/lists',
  ],
  'db/transfer': ['db', 'db/engine'],
  storage: ['data-dir', 'concurrency', 'config', 'problems'],
  images: ['concurrency', 'problems', 'storage'],
  mail: ['config'],
  auth: ['domain', 'concurrency', 'problems', 'db', 'db/engine'],
  oidc: ['domain', 'config', 'problems', 'auth'],
  webhooks: ['domain', 'auth', 'db', 'db/engine', 'mail'],
  http: ['domain', 'concurrency', 'auth', 'contract', 'problems'],
  observe: [
    'domain',
    'concurrency',
    'auth',
    'contract',
    'db',
    'db/engine',
    'db/statements',
    'http',
    'storage',
  ],
  jobs: ['domain', 'auth', 'db', 'db/engine', 'interchange', 'storage', 'webhooks'],
  mcp: ['domain', 'contract'],
  services: [
    'data-dir',
    'domain',
    'concurrency',
    'auth',
    'contract',
    'db',
    'db/engine',
    'db/statements',
    'images',
    'interchange',
    'jobs',
    'mail',
    'mcp',
    'oidc',
    'problems',
    'storage',
    'webhooks',
  ],
  handlers: ['domain', 'contract', 'http', 'problems', 'services'],
}

const folders = Object.keys(mayImport)
for (const [folder, others] of Object.entries(mayImport)) {
  const below = others.find((other) => folders.indexOf(other) > folders.indexOf(folder))
  if (below !== undefined) throw new Error(`${folder} cannot import ${below}, which is listed below it`)
}

/** The folders of a layer, by topic. A topic imports only those before it. */
const topicsOf = {
  domain: ['shared', 'accounts', 'projects', 'tasks', 'files', 'activity', 'interchange', 'upkeep'],
  db: ['shared', 'accounts', 'projects', 'tasks', 'files', 'activity', 'interchange', 'upkeep'],
  // Signing in accepts invitations to projects, and keeps teams up to date.
  services: ['shared', 'projects', 'accounts', 'tasks', 'files', 'activity', 'interchange', 'upkeep'],
}

/** The files of a folder: for db, those of its topics; its other folders have their own rules. */
const filesOf = (folder) => (folder === 'db' ? `^src/db/(${topicsOf.db.join('|')})/` : `^src/${folder}/`)

module.exports = {
  forbidden: [
    { name: 'no-cycle', severity: 'error', from: {}, to: { circular: true } },
    {
      name: 'every-folder-has-a-rule',
      severity: 'error',
      from: {},
      to: { path: '^src/.+/', pathNot: ['^src/process/', ...folders.map(filesOf)] },
    },
    {
      name: 'only-process-imports-process',
      severity: 'error',
      from: { pathNot: ['^src/process/', '^src/main.js$'] },
      to: { path: '^src/process/' },
    },
    {
      name: 'only-process-imports-app',
      severity: 'error',
      from: { pathNot: '^src/process/' },
      to: { path: '^src/app.ts$' },
    },
    {
      name: 'errors-are-mapped-in-one-file',
      severity: 'error',
      from: { path: '^src/(auth|db|images|storage)/', pathNot: '/problems.ts$' },
      to: { path: '^src/problems/' },
    },
    {
      name: 'files-are-in-topics',
      severity: 'error',
      from: {},
      to: { path: `^src/(${Object.keys(topicsOf).join('|')})/[^/]+\\.ts$` },
    },
    ...Object.entries(topicsOf).flatMap(([layer, topics]) =>
      topics.slice(0, -1).map((topic, index) => ({
        name: `imports-of-${layer}-${topic}`,
        severity: 'error',
        from: { path: `^src/${layer}/${topic}/` },
        to: { path: `^src/${layer}/(${topics.slice(index + 1).join('|')})/` },
      })),
    ),
    ...Object.entries(mayImport).map(([folder, others]) => ({
      name: `imports-of-${folder}`,
      severity: 'error',
      from: { path: filesOf(folder) },
      to: { path: '^src/', pathNot: [folder, ...others].map(filesOf) },
    })),
  ],
  options: {
    doNotFollow: { path: ['node_modules', '^generated'] },
    // Includes type-only imports.
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: { extensions: ['.ts', '.js'] },
  },
}
