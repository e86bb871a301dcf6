import { resolve } from 'node:path'
import t from 'tap'
import { ConfigError, readConfig } from '../src/config.ts'

const messageOf = (env: Readonly<Record<string, string>>): string => {
  try {
    readConfig(env)
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
  return ''
}

const secret = 'a secret of at least thirty-two bytes'

t.test('an empty environment has the defaults', async (t) => {
  const defaults = {
    host: 'localhost',
    port: 3000,
    databaseUrl: null,
    dataDir: resolve('data'),
    jwtSecret: null,
    registration: 'open',
    publicUrl: null,
    trustProxy: [],
    logLevel: 'info',
    attachmentMaxBytes: 52_428_800,
  }
  t.strictSame(readConfig({}), defaults)
  const empty = { HOST: '', PORT: '', DATABASE_URL: '', JWT_SECRET: '', PUBLIC_URL: '', TRUST_PROXY: '' }
  t.strictSame(readConfig(empty), defaults, 'an empty variable counts as unset')
  t.strictSame(readConfig({ PATH: '/bin', SOMETHING: 'else' }), defaults, 'others are none of its business')
})

const good: readonly (readonly [
  name: string,
  text: string,
  key: keyof ReturnType<typeof readConfig>,
  value: unknown,
])[] = [
  ['HOST', '0.0.0.0', 'host', '0.0.0.0'],
  ['HOST', '::', 'host', '::'],
  ['HOST', 'tasks.example.com', 'host', 'tasks.example.com'],
  ['PORT', '0', 'port', 0],
  ['PORT', '65535', 'port', 65_535],
  ['DATABASE_URL', 'postgres://u:p@host/db', 'databaseUrl', 'postgres://u:p@host/db'],
  ['DATABASE_URL', 'postgresql://host', 'databaseUrl', 'postgresql://host'],
  ['DATABASE_URL', 'postgres://u:p@a:1,b:2/db', 'databaseUrl', 'postgres://u:p@a:1,b:2/db'],
  ['DATA_DIR', 'some/folder', 'dataDir', resolve('some/folder')],
  ['DATA_DIR', '/srv/tasks', 'dataDir', '/srv/tasks'],
  ['JWT_SECRET', 'x'.repeat(32), 'jwtSecret', 'x'.repeat(32)],
  ['JWT_SECRET', 'ü'.repeat(16), 'jwtSecret', 'ü'.repeat(16)],
  ['REGISTRATION', 'closed', 'registration', 'closed'],
  ['PUBLIC_URL', 'https://tasks.example', 'publicUrl', 'https://tasks.example'],
  ['PUBLIC_URL', 'https://tasks.example/', 'publicUrl', 'https://tasks.example'],
  ['PUBLIC_URL', 'http://localhost:8080/api//', 'publicUrl', 'http://localhost:8080/api'],
  ['TRUST_PROXY', '127.0.0.1', 'trustProxy', ['127.0.0.1']],
  ['TRUST_PROXY', '10.0.0.0/8, ::1, fd00::/8', 'trustProxy', ['10.0.0.0/8', '::1', 'fd00::/8']],
  ['LOG_LEVEL', 'silent', 'logLevel', 'silent'],
  ['ATTACHMENT_MAX_BYTES', '1', 'attachmentMaxBytes', 1],
  ['ATTACHMENT_MAX_BYTES', '1099511627776', 'attachmentMaxBytes', 2 ** 40],
]

for (const [name, text, key, value] of good) {
  t.test(`${name}=${text}`, async (t) => {
    t.strictSame(readConfig({ [name]: text })[key], value)
  })
}

const bad: readonly (readonly [name: string, fault: RegExp, texts: readonly string[]])[] = [
  ['HOST', /must be a host name or an IP address/, ['localhost:3000', 'http://host', 'a b', '-a', '[::1]']],
  ['PORT', /0 to 65535/, ['65536', '-1', '80.5', '0x50', '1e3', ' 80', 'http', '99999999999999999999']],
  ['DATABASE_URL', /must begin with postgres:/, ['mysql://host/db', 'host/db', ' postgres://host']],
  ['DATABASE_URL', /percent-encoded/, ['postgres://u:p/w@host/db', 'postgres://host:port/db']],
  ['DATA_DIR', /must be a path/, ['a\0b']],
  ['JWT_SECRET', /at least 32 bytes long, and has 31/, ['x'.repeat(31)]],
  ['REGISTRATION', /must be one of open, closed/, ['Open', 'yes', 'open ']],
  [
    'PUBLIC_URL',
    /must be an http:\/\/ or https:\/\/ URL/,
    ['tasks.example', 'ftp://host', '/api', 'https://'],
  ],
  ['PUBLIC_URL', /user name or password/, ['https://u@host', 'https://u:p@host/api']],
  ['PUBLIC_URL', /query or a fragment/, ['https://host/?a=1', 'https://host/#a', 'https://host/?']],
  [
    'TRUST_PROXY',
    /IP addresses or CIDR ranges/,
    ['true', '1', '10.0.0.0/33', '::/129', '127.0.0.1,,::1', 'proxy'],
  ],
  ['TRUST_PROXY', /'0\.0\.0\.0\/0' is neither/, ['127.0.0.1,0.0.0.0/0']],
  ['LOG_LEVEL', /must be one of fatal, error, warn, info, debug, trace, silent/, ['verbose', 'INFO']],
  ['ATTACHMENT_MAX_BYTES', /positive whole number/, ['0', '-1', '50MB', '1.5', '9007199254740993']],
]

for (const [name, fault, texts] of bad) {
  for (const text of texts) {
    t.test(`${name}=${JSON.stringify(text)} is refused`, async (t) => {
      const message = messageOf({ [name]: text })
      t.match(message, fault)
      const [, line = '', ...more] = message.split('\n')
      t.ok(line.startsWith(`${name} `), 'with its name')
      t.match(line, /\(example: .+\)$/, 'and an example')
      t.same(more, [], 'and nothing else')
    })
  }
}

t.test('the examples are good themselves', async (t) => {
  const bad = { PORT: 'x', DATABASE_URL: 'x', PUBLIC_URL: 'x', TRUST_PROXY: 'x', ATTACHMENT_MAX_BYTES: 'x' }
  const examples = [...messageOf(bad).matchAll(/^(\w+) .*\(example: (.*)\)$/gm)]
  t.equal(examples.length, 5)
  for (const [, name = '', example = ''] of examples) t.equal(messageOf({ [name]: example }), '', name)
})

t.test('every fault is told at once', async (t) => {
  const message = messageOf({ PORT: 'eighty', REGISTRATION: 'maybe', LOG_LEVEL: 'loud', HOST: 'fine' })
  t.strictSame(
    message.split('\n').map((line) => line.split(' ')[0]),
    ['Bad', 'PORT', 'REGISTRATION', 'LOG_LEVEL'],
  )
})

t.test('no secret is printed', async (t) => {
  const message = messageOf({
    JWT_SECRET: 'hunter2',
    DATABASE_URL: 'postgres://admin:hunter2/x@host/db',
    PUBLIC_URL: 'https://admin:hunter2@host',
  })
  t.match(message, /JWT_SECRET[^]*PUBLIC_URL/)
  t.notMatch(message, 'hunter2')
  t.notMatch(
    messageOf({ JWT_SECRET: secret, DATABASE_URL: 'mysql://u:hunter2@host', PORT: 'x' }),
    /hunter2|a secret/,
  )
})
