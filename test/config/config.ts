import { availableParallelism } from 'node:os'
import { join, resolve } from 'node:path'
import t from 'tap'
import { ConfigError, readConfig, unknownSettings } from '../../src/config/config.ts'
import { settings } from '../../src/config/settings.ts'

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
    postgresBin: null,
    dataDir: resolve('data'),
    jwtSecrets: null,
    registration: 'open',
    firstAdmin: null,
    invitations: 'registered',
    invitationsPerDay: 50,
    mcp: 'on',
    oidc: null,
    storageUrl: null,
    publicUrl: null,
    trustProxy: [],
    corsOrigins: [],
    corsHeaders: ['traceparent', 'tracestate', 'baggage', 'sentry-trace'],
    logLevel: 'info',
    logFormat: null,
    attachmentMaxBytes: 52_428_800,
    attachmentQuotaBytes: 10_737_418_240,
    interchangeQuotaBytes: 21_474_836_480,
    taskQuota: 200_000,
    diskReserveBytes: 536_870_912,
    auditDays: 365,
    eventDays: 90,
    trashDays: 30,
    exportDays: 3,
    importFileDays: 7,
    importMaxBytes: 2_147_483_648,
    webhookAllow: [],
    mail: { kind: 'log' },
    rateLimit: 'on',
    rateLimitSignIn: 10,
    rateLimitRefresh: 30,
    rateLimitApi: 600,
    rateLimitUpload: 60,
    rateLimitAnonymous: 600,
    redisUrl: null,
    metricsPort: null,
    metricsHost: 'localhost',
    metricsToken: null,
    traces: false,
    shutdownSeconds: 30,
    workers: 1,
  }
  t.strictSame(readConfig({}), defaults)
  const empty = { HOST: '', PORT: '', DATABASE_URL: '', JWT_SECRET: '', PUBLIC_URL: '', TRUST_PROXY: '' }
  t.strictSame(readConfig(empty), defaults, 'an empty variable counts as unset')
  t.strictSame(readConfig({ PATH: '/bin', SOMETHING: 'else' }), defaults, 'unknown variables are ignored')
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
  ['JWT_SECRET', 'x'.repeat(32), 'jwtSecrets', ['x'.repeat(32)]],
  ['JWT_SECRET', 'ü'.repeat(16), 'jwtSecrets', ['ü'.repeat(16)]],
  ['JWT_SECRET', ` ${'x'.repeat(30)} `, 'jwtSecrets', [` ${'x'.repeat(30)} `]],
  ['JWT_SECRET', `${'x'.repeat(32)},${'y'.repeat(32)}`, 'jwtSecrets', ['x'.repeat(32), 'y'.repeat(32)]],
  [
    'JWT_SECRET',
    `${secret} , ${'y'.repeat(32)}\n,z${secret}`,
    'jwtSecrets',
    [secret, 'y'.repeat(32), `z${secret}`],
  ],
  ['REGISTRATION', 'closed', 'registration', 'closed'],
  ['MCP', 'off', 'mcp', 'off'],
  [
    'STORAGE_URL',
    's3://bucket?region=eu-central-1',
    'storageUrl',
    { bucket: 'bucket', prefix: '', endpoint: null, region: 'eu-central-1', pathStyle: false },
  ],
  [
    'STORAGE_URL',
    's3://a.b-1/deep/path/?endpoint=http://127.0.0.1:9000&path_style=true',
    'storageUrl',
    {
      bucket: 'a.b-1',
      prefix: 'deep/path/',
      endpoint: 'http://127.0.0.1:9000',
      region: 'us-east-1',
      pathStyle: true,
    },
  ],
  [
    'STORAGE_URL',
    's3://bucket/p?endpoint=https%3A%2F%2Fs3.example.com%2Fbase&region=r&path_style=false',
    'storageUrl',
    {
      bucket: 'bucket',
      prefix: 'p/',
      endpoint: 'https://s3.example.com/base',
      region: 'r',
      pathStyle: false,
    },
  ],
  ['PUBLIC_URL', 'https://tasks.example', 'publicUrl', 'https://tasks.example'],
  ['PUBLIC_URL', 'https://tasks.example/', 'publicUrl', 'https://tasks.example'],
  ['PUBLIC_URL', 'http://localhost:8080/api//', 'publicUrl', 'http://localhost:8080/api'],
  ['TRUST_PROXY', '127.0.0.1', 'trustProxy', ['127.0.0.1']],
  ['TRUST_PROXY', '10.0.0.0/8, ::1, fd00::/8', 'trustProxy', ['10.0.0.0/8', '::1', 'fd00::/8']],
  ['CORS_ORIGINS', '*', 'corsOrigins', '*'],
  ['CORS_ORIGINS', 'https://app.example.com', 'corsOrigins', ['https://app.example.com']],
  [
    'CORS_ORIGINS',
    'HTTPS://App.Example.com:443/, http://localhost:5173',
    'corsOrigins',
    ['https://app.example.com', 'http://localhost:5173'],
  ],
  ['CORS_HEADERS', 'traceparent, X-Datadog-Trace-Id', 'corsHeaders', ['traceparent', 'X-Datadog-Trace-Id']],
  ['LOG_LEVEL', 'silent', 'logLevel', 'silent'],
  ['ATTACHMENT_MAX_BYTES', '1', 'attachmentMaxBytes', 1],
  ['ATTACHMENT_QUOTA_BYTES', '1099511627776', 'attachmentQuotaBytes', 2 ** 40],
  ['ATTACHMENT_QUOTA_BYTES', '0', 'attachmentQuotaBytes', null],
  ['INTERCHANGE_QUOTA_BYTES', '0', 'interchangeQuotaBytes', null],
  ['DISK_RESERVE_BYTES', '0', 'diskReserveBytes', 0],
  ['AUDIT_DAYS', '36500', 'auditDays', 36_500],
  ['EVENT_DAYS', '1', 'eventDays', 1],
  ['TRASH_DAYS', '1', 'trashDays', 1],
  ['EXPORT_DAYS', '1', 'exportDays', 1],
  ['IMPORT_FILE_DAYS', '1', 'importFileDays', 1],
  ['IMPORT_MAX_BYTES', '1', 'importMaxBytes', 1],
  [
    'WEBHOOK_ALLOW',
    'Builds.internal, 10.0.0.0/8,::1',
    'webhookAllow',
    ['Builds.internal', '10.0.0.0/8', '::1'],
  ],
  ['ATTACHMENT_MAX_BYTES', '1099511627776', 'attachmentMaxBytes', 2 ** 40],
  ['RATE_LIMIT', 'off', 'rateLimit', 'off'],
  ['RATE_LIMIT_SIGN_IN', '1', 'rateLimitSignIn', 1],
  ['RATE_LIMIT_REFRESH', '2', 'rateLimitRefresh', 2],
  ['RATE_LIMIT_API', '3', 'rateLimitApi', 3],
  ['RATE_LIMIT_UPLOAD', '4', 'rateLimitUpload', 4],
  ['RATE_LIMIT_ANONYMOUS', '100000', 'rateLimitAnonymous', 100_000],
  ['METRICS_PORT', '0', 'metricsPort', 0],
  ['METRICS_HOST', '0.0.0.0', 'metricsHost', '0.0.0.0'],
  ['METRICS_TOKEN', 'a-token-of-the-scraper', 'metricsToken', 'a-token-of-the-scraper'],
  ['OTEL_TRACES_EXPORTER', 'otlp', 'traces', true],
  ['OTEL_TRACES_EXPORTER', 'none', 'traces', false],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'http://localhost:4318', 'traces', true],
  ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'https://traces.example.com/v1', 'traces', true],
  ['SHUTDOWN_SECONDS', '5', 'shutdownSeconds', 5],
  ['SHUTDOWN_SECONDS', '3600', 'shutdownSeconds', 3_600],
  ['WORKERS', '1', 'workers', 1],
  ['WORKERS', 'auto', 'workers', availableParallelism()],
  ['REDIS_URL', 'redis://localhost', 'redisUrl', 'redis://localhost'],
  ['REDIS_URL', 'rediss://u:p%2Fw@[::1]:6380/2', 'redisUrl', 'rediss://u:p%2Fw@[::1]:6380/2'],
]

for (const [name, text, key, value] of good) {
  t.test(`${name}=${text} is accepted`, async (t) => {
    t.strictSame(readConfig({ [name]: text })[key], value)
  })
}

const bad: readonly (readonly [name: string, fault: RegExp, texts: readonly string[]])[] = [
  ['HOST', /must be a host name or an IP address/, ['localhost:3000', 'http://host', 'a b', '-a', '[::1]']],
  ['PORT', /0 to 65535/, ['65536', '-1', '80.5', '0x50', '1e3', ' 80', 'http', '99999999999999999999']],
  ['DATABASE_URL', /must begin with postgres:/, ['mysql://host/db', 'host/db', ' postgres://host']],
  ['DATABASE_URL', /percent-encoded/, ['postgres://host:port/db']],
  [
    'DATABASE_URL',
    /percent-encode it \(@ is %40\)/,
    [
      'postgres://u:p@ss@host/db',
      'postgres://u:p/w@host/db',
      'postgres://u:1#p@host',
      'postgres://u:1?p@host',
    ],
  ],
  ['DATABASE_URL', /encode % as %25/, ['postgres://u:100%@host/db']],
  ['DATA_DIR', /must be a path/, ['a\0b']],
  [
    'WEBHOOK_ALLOW',
    /is none of them/,
    ['http://host', 'a b', '10.0.0.0/33', '0.0.0.0/0', 'a,', '*.internal', 'host:80'],
  ],
  [
    'JWT_SECRET',
    /at least 32 bytes each; number 1 has 31\b/,
    ['x'.repeat(31), `${'x'.repeat(31)},${secret}`],
  ],
  ['JWT_SECRET', /; number 2 has 31\b/, [`${secret},${'x'.repeat(31)}`, `${secret}, ${'x'.repeat(31)} ,x`]],
  ['JWT_SECRET', /; number 2 has 0\b/, [`${secret},`, `${secret}, ,${secret}`]],
  [
    'STORAGE_URL',
    /must be an s3:\/\/ URL/,
    ['bucket', 'http://host/bucket', 's3:bucket', 's3:///prefix', '/srv'],
  ],
  ['STORAGE_URL', /must not contain credentials/, ['s3://key:hunter2@bucket', 's3://key@bucket?region=r']],
  [
    'STORAGE_URL',
    /must name a bucket/,
    ['s3://Bucket?region=r', 's3://ab?region=r', 's3://a_b?region=r', 's3://host:9000/bucket', 's3://-ab'],
  ],
  [
    'STORAGE_URL',
    /must have a path/,
    [
      's3://bucket/a//b?region=r',
      's3://bucket//?region=r',
      's3://bucket/a%20b?region=r',
      's3://bucket?region=r#',
    ],
  ],
  [
    'STORAGE_URL',
    /each once, and nothing else/,
    ['s3://bucket?region=r&secret=hunter2', 's3://bucket?region=a&region=b', 's3://bucket?Region=r'],
  ],
  [
    'STORAGE_URL',
    /URL as its endpoint/,
    [
      's3://bucket?endpoint=localhost:9000',
      's3://bucket?endpoint=',
      's3://bucket?endpoint=http://u:hunter2@host',
      's3://bucket?endpoint=http://host?a=b',
      's3://bucket?endpoint=http://host%23a',
    ],
  ],
  ['STORAGE_URL', /must name the region/, ['s3://bucket', 's3://bucket?region=', 's3://bucket?region=a%20b']],
  [
    'STORAGE_URL',
    /true or false/,
    ['s3://bucket?region=r&path_style=yes', 's3://bucket?region=r&path_style='],
  ],
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
  ['CORS_HEADERS', /must be a comma-separated list of header names/, ['*', 'a b', 'a,,b', 'a:b']],
  [
    'CORS_ORIGINS',
    /must be \* or a comma-separated list of origins/,
    [
      'null',
      'app.example.com',
      '//app.example.com',
      'https://app.example.com/page',
      'https://app.example.com?',
      'https://u@app.example.com',
      'https://*.example.com',
      'file:///',
      'https://a.example,',
      '*,https://a.example',
    ],
  ],
  ['LOG_LEVEL', /must be one of fatal, error, warn, info, debug, trace, silent/, ['verbose', 'INFO']],
  [
    'SMTP_URL',
    /must be an smtp:\/\/ or smtps:\/\/ URL/,
    ['mail.example.com', 'http://host', 'smtp://', 'smtp:host'],
  ],
  ['SMTP_URL', /percent-encoded/, ['smtp://u:p/w@host', 'smtp://host:port']],
  [
    'SMTP_URL',
    /path, a query or a fragment/,
    ['smtp://host/inbox', 'smtp://host?pool=true', 'smtp://host/#a'],
  ],
  ['SMTP_URL', /an invalid percent-encoding/, ['smtp://u:100%@host', 'smtp://u:%ff@host']],
  ['SMTP_URL', /a user name and a password, or neither/, ['smtp://u@host', 'smtp://:p@host']],
  [
    'MAIL_FROM',
    /must be an email address/,
    [
      'tasks',
      'tasks@',
      'a@b, c@d',
      'a@b\r\nBcc: c@d',
      'T\n <a@b>',
      '"T" <a@b>',
      'T <a@b> <c@d>',
      'T <a>b@c>',
    ],
  ],
  ['AUDIT_DAYS', /whole number of days from 1 to 36500/, ['0', '36501', '-1', 'year']],
  ['EVENT_DAYS', /whole number of days from 1 to 36500/, ['0', '36501', '-1', 'year']],
  ['TRASH_DAYS', /whole number of days from 1 to 36500/, ['0', '36501', 'never']],
  ['METRICS_PORT', /from 0 to 65535/, ['on', '-1']],
  ['METRICS_HOST', /without a port/, ['localhost:9464']],
  ['METRICS_TOKEN', /at least 16 characters/, ['hunter2', 'a token with some spaces']],
  ['OTEL_TRACES_EXPORTER', /must be one of otlp, none/, ['console', 'OTLP']],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', /must be an http/, ['localhost:4318', 'grpc://localhost:4317']],
  ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', /must be an http/, ['/v1/traces']],
  ['SHUTDOWN_SECONDS', /whole number of seconds from 5 to 3600/, ['0', '4', '3601', '30s']],
  ['WORKERS', /auto or a whole number from 1 to 128/, ['0', '129', '1.5', 'all']],
  ['ATTACHMENT_MAX_BYTES', /positive whole number/, ['0', '-1', '50MB', '1.5', '9007199254740993']],
  ['ATTACHMENT_QUOTA_BYTES', /whole number of bytes, or 0/, ['-1', '10GB']],
  ['INTERCHANGE_QUOTA_BYTES', /whole number of bytes, or 0/, ['-1', '20GB']],
  ['DISK_RESERVE_BYTES', /whole number of bytes, or 0/, ['-1', '5%']],
  ['RATE_LIMIT', /must be one of on, off/, ['true', 'ON', '0']],
  ['RATE_LIMIT_SIGN_IN', /positive whole number of requests per minute/, ['0', '-1', '1.5', '10/min']],
  ['RATE_LIMIT_REFRESH', /positive whole number/, ['0']],
  ['RATE_LIMIT_API', /positive whole number/, ['0']],
  ['RATE_LIMIT_UPLOAD', /positive whole number/, ['0']],
  ['RATE_LIMIT_ANONYMOUS', /positive whole number/, ['0']],
  ['REDIS_URL', /must be a redis:/, ['localhost:6379', 'http://host', 'redis://', '/run/redis.sock']],
  ['REDIS_URL', /percent-encoded/, ['redis://:p/w@host', 'redis://host:port']],
  ['REDIS_URL', /an invalid percent-encoding/, ['redis://:p%w@host']],
  [
    'REDIS_URL',
    /other than a database number/,
    ['redis://host/name', 'redis://host/0?family=6', 'redis://host#0'],
  ],
]

for (const [name, fault, texts] of bad) {
  for (const text of texts) {
    t.test(`${name}=${JSON.stringify(text)} is rejected`, async (t) => {
      const message = messageOf({ [name]: text })
      t.match(message, fault)
      const [, line = '', ...more] = message.split('\n')
      t.ok(line.startsWith(`${name} `), 'the message starts with the name')
      t.match(line, /\(example: .+\)$/, 'and ends with an example')
      t.same(more, [], 'no other errors')
    })
  }
}

t.test('the examples in messages are valid', async (t) => {
  const bad = {
    PORT: 'x',
    DATABASE_URL: 'x',
    STORAGE_URL: 'x',
    PUBLIC_URL: 'x',
    TRUST_PROXY: 'x',
    ATTACHMENT_MAX_BYTES: 'x',
  }
  const examples = [...messageOf(bad).matchAll(/^(\w+) .*\(example: (.*)\)$/gm)]
  t.equal(examples.length, 6)
  for (const [, name = '', example = ''] of examples) t.equal(messageOf({ [name]: example }), '', name)
})

t.test('mail', async (t) => {
  const PUBLIC_URL = 'https://tasks.example.com/api'
  const mailOf = (env: Readonly<Record<string, string>>): unknown => readConfig(env).mail

  t.test('is sent to the server of SMTP_URL', async (t) => {
    const servers: readonly (readonly [text: string, server: object])[] = [
      [
        'smtp://mail.example.com',
        { host: 'mail.example.com', port: 587, tls: 'starttls_if_offered', auth: null },
      ],
      ['smtps://[2001:db8::1]/', { host: '2001:db8::1', port: 465, tls: 'implicit', auth: null }],
      [
        'smtp://me%40x:p%2Fw%25@mail.example.com:25',
        { host: 'mail.example.com', port: 25, tls: 'starttls', auth: { user: 'me@x', pass: 'p/w%' } },
      ],
      ['smtp://u:p@localhost', { host: 'localhost', port: 587, tls: 'none', auth: { user: 'u', pass: 'p' } }],
      ['smtp://127.0.0.2:1025', { host: '127.0.0.2', port: 1025, tls: 'none', auth: null }],
    ]
    for (const [SMTP_URL, server] of servers) {
      const from = { name: 'Taskwright', address: 'taskwright@tasks.example.com' }
      const expected = { kind: 'smtp', server, from, publicUrl: PUBLIC_URL }
      t.strictSame(mailOf({ SMTP_URL, PUBLIC_URL }), expected, SMTP_URL)
    }
  })

  t.test('is sent from MAIL_FROM', async (t) => {
    const senders: readonly (readonly [text: string, name: string, address: string])[] = [
      ['tasks@example.com', '', 'tasks@example.com'],
      ['<tasks@example.com>', '', 'tasks@example.com'],
      ['Tâches, Inc. <tasks@example.com>', 'Tâches, Inc.', 'tasks@example.com'],
    ]
    for (const [MAIL_FROM, name, address] of senders) {
      const mail = mailOf({ SMTP_URL: 'smtp://localhost', PUBLIC_URL, MAIL_FROM })
      t.match(mail, { from: { name, address } }, MAIL_FROM)
    }
  })

  t.test('needs PUBLIC_URL, and an invalid one is reported once', async (t) => {
    const SMTP_URL = 'smtp://u:hunter2@localhost'
    t.match(
      messageOf({ SMTP_URL }),
      /^Invalid configuration:\nSMTP_URL requires PUBLIC_URL, .* \(example: https:.*\)$/,
    )
    t.notMatch(messageOf({ SMTP_URL }), 'hunter2')
    t.match(
      messageOf({ SMTP_URL, PUBLIC_URL: 'nowhere' }),
      /^Invalid configuration:\nPUBLIC_URL must [^\n]*$/,
    )
  })

  t.test('is logged in development only', async (t) => {
    for (const HOST of ['localhost', '127.0.0.1', '::1'])
      t.strictSame(mailOf({ HOST }), { kind: 'log' }, HOST)
    t.strictSame(mailOf({ NODE_ENV: 'development' }), { kind: 'log' })
    const served: readonly Readonly<Record<string, string>>[] = [
      { HOST: '0.0.0.0' },
      { HOST: '::' },
      { HOST: 'localhost.example.com' },
      { HOST: '127.example.com' },
      { NODE_ENV: 'production' },
      { TRUST_PROXY: '127.0.0.1' },
      { PUBLIC_URL },
    ]
    for (const env of served) t.strictSame(mailOf(env), { kind: 'none' }, JSON.stringify(env))
  })
})

t.test('all errors are reported together', async (t) => {
  const message = messageOf({ PORT: 'eighty', REGISTRATION: 'maybe', LOG_LEVEL: 'loud', HOST: 'fine' })
  t.strictSame(
    message.split('\n').map((line) => line.split(' ')[0]),
    ['Invalid', 'PORT', 'REGISTRATION', 'LOG_LEVEL'],
  )
})

t.test('messages contain no secrets', async (t) => {
  const message = messageOf({
    JWT_SECRET: 'hunter2',
    DATABASE_URL: 'postgres://admin:hunter2/x@host/db',
    PUBLIC_URL: 'https://admin:hunter2@host',
  })
  t.match(message, /PUBLIC_URL[^]*JWT_SECRET/)
  t.notMatch(message, 'hunter2')
  t.notMatch(
    messageOf({ JWT_SECRET: secret, DATABASE_URL: 'mysql://u:hunter2@host', PORT: 'x' }),
    /hunter2|a secret/,
  )
  t.notMatch(messageOf({ JWT_SECRET: `${secret},hunter2` }), /hunter2|a secret/)
  for (const STORAGE_URL of [
    's3://key:hunter2@bucket?region=r',
    's3://bucket?region=r&hunter2=hunter2',
    's3://bucket?endpoint=http://key:hunter2@host',
  ]) {
    t.match(messageOf({ STORAGE_URL }), 'STORAGE_URL')
    t.notMatch(messageOf({ STORAGE_URL }), 'hunter2')
  }
  t.notMatch(messageOf({ REDIS_URL: 'redis://:hunter2@host/name', PORT: 'x' }), 'hunter2')
})

t.test('the first administrator needs an email address and a password', async (t) => {
  const [ADMIN_EMAIL, ADMIN_PASSWORD] = ['ada@example.com', 'correct horse']
  t.strictSame(readConfig({ ADMIN_EMAIL, ADMIN_PASSWORD }).firstAdmin, {
    email: ADMIN_EMAIL,
    password: ADMIN_PASSWORD,
  })
  for (const env of [{ ADMIN_EMAIL }, { ADMIN_PASSWORD }])
    t.match(messageOf(env), 'ADMIN_EMAIL and ADMIN_PASSWORD require each other')
  t.equal(
    readConfig({ ADMIN_EMAIL: 'Ada@münchen.example', ADMIN_PASSWORD }).firstAdmin?.email,
    'ada@xn--mnchen-3ya.example',
  )
  for (const address of [
    'ada',
    '<ada@example.com>',
    'Ada <ada@example.com>',
    'zoë@example.com',
    `ada@${'a.'.repeat(200)}example`,
  ])
    t.match(messageOf({ ADMIN_EMAIL: address, ADMIN_PASSWORD }), 'ADMIN_EMAIL must be an email address')
  t.match(
    messageOf({ ADMIN_EMAIL, ADMIN_PASSWORD: 'hunter2' }),
    'ADMIN_PASSWORD must have 8 to 256 characters',
  )
  t.notMatch(messageOf({ ADMIN_EMAIL, ADMIN_PASSWORD: 'hunter2' }), 'hunter2')
})

t.test('secrets can be read from files', async (t) => {
  const folder = t.testdir({ secret: `${secret}\n`, empty: '', url: 'postgres://localhost/tasks' })
  const file = (name: string): string => join(folder, name)
  t.strictSame(readConfig({ JWT_SECRET_FILE: file('secret') }).jwtSecrets, [secret])
  t.equal(readConfig({ DATABASE_URL_FILE: file('url'), WORKERS: '2' }).workers, 2)
  t.match(messageOf({ JWT_SECRET_FILE: file('missing') }), /JWT_SECRET_FILE cannot be read: ENOENT/)
  t.match(messageOf({ JWT_SECRET_FILE: file('empty') }), /JWT_SECRET_FILE names an empty file/)
  t.match(messageOf({ JWT_SECRET_FILE: file('secret'), JWT_SECRET: secret }), /both set/)
  t.equal(readConfig({ HOST_FILE: file('secret') }).host, 'localhost', 'other settings cannot')
})

t.test('variables that look like settings are reported', async (t) => {
  const meant = {
    DATABASE_URI: 'DATABASE_URL',
    DATABASEURL: 'DATABASE_URL',
    data_dir: 'DATA_DIR',
    PUBLIC_URL_FILE: 'PUBLIC_URL',
    JWT_SECRETS: 'JWT_SECRET',
    RATE_LIMIT_SIGNIN: 'RATE_LIMIT_SIGN_IN',
    TASKWRIGHT_PORT: 'PORT',
    TASKWRIGHT_DATABASE_URL: 'DATABASE_URL',
    TASKWRIGHT_METRIC_PORT: 'METRICS_PORT',
    SMPT_URL: 'SMTP_URL',
    TRUST_PROXIES: 'TRUST_PROXY',
    OIDC_CONF: 'OIDC_CONFIG',
    S3_BUCKET: 'STORAGE_URL',
    OTEL_EXPORTER_OTLP_ENPOINT: 'OTEL_EXPORTER_OTLP_ENDPOINT',
  }
  const found = unknownSettings(Object.fromEntries(Object.keys(meant).map((name) => [name, 'x'])))
  t.strictSame(
    found,
    Object.entries(meant).map(
      ([name, other]) => `${name} is not a setting, and is ignored. Did you mean ${other}?`,
    ),
  )
  t.strictSame(unknownSettings({ TASKWRIGHT_COLOR: 'red' }), [
    'TASKWRIGHT_COLOR is not a setting, and is ignored',
  ])
  t.strictSame(unknownSettings({ DATABASE_READ_URL: 'postgres://standby/tasks' }), [
    'DATABASE_READ_URL is no longer a setting, and is ignored: all requests read from DATABASE_URL',
  ])
})

/** As found in shells, npm scripts, systemd units, containers, Kubernetes, CI, and the .env files of other services. */
const ordinaryVariables = `
  HOME USER LOGNAME SHELL PATH PWD OLDPWD SHLVL LANG LANGUAGE LC_ALL LC_CTYPE TERM TERM_PROGRAM COLORTERM DISPLAY EDITOR VISUAL PAGER
  HOSTNAME HOSTTYPE OSTYPE MAIL MAILCHECK TZ TMPDIR TEMP TMP _ SSH_AUTH_SOCK SSH_CONNECTION SUDO_USER SUDO_COMMAND DEBIAN_FRONTEND
  XDG_DATA_DIRS XDG_DATA_HOME XDG_RUNTIME_DIR XDG_SESSION_ID DBUS_SESSION_BUS_ADDRESS WORKER RUNNER_TEMP
  NODE NODE_ENV NODE_OPTIONS NODE_PATH NODE_VERSION NODE_COMPILE_CACHE NODE_EXTRA_CA_CERTS YARN_VERSION INIT_CWD COLOR npm_config_cache
  npm_config_user_agent npm_execpath npm_lifecycle_event npm_lifecycle_script npm_package_json npm_package_name npm_node_execpath
  INVOCATION_ID JOURNAL_STREAM SYSTEMD_EXEC_PID NOTIFY_SOCKET WATCHDOG_PID WATCHDOG_USEC STATE_DIRECTORY RUNTIME_DIRECTORY
  CACHE_DIRECTORY LOGS_DIRECTORY CONFIGURATION_DIRECTORY CREDENTIALS_DIRECTORY MAINPID LISTEN_FDS LISTEN_PID MALLOC_ARENA_MAX
  KUBERNETES_SERVICE_HOST KUBERNETES_SERVICE_PORT KUBERNETES_PORT KUBERNETES_PORT_443_TCP KUBERNETES_PORT_443_TCP_ADDR
  TASKWRIGHT_SERVICE_HOST TASKWRIGHT_SERVICE_PORT TASKWRIGHT_SERVICE_PORT_HTTP TASKWRIGHT_PORT_3000_TCP TASKWRIGHT_PORT_3000_TCP_ADDR
  TASKWRIGHT_DB_SERVICE_HOST TASKWRIGHT_DB_PORT_5432_TCP_PROTO TASKWRIGHT_URL TASKWRIGHT_TOKEN
  REDIS_SERVICE_HOST REDIS_PORT REDIS_HOST REDIS_PASSWORD SMTP_HOST SMTP_PORT SMTP_USER DATABASE_HOST DATABASE_PORT DATABASE_USER
  DATABASE_NAME DATABASE_PASSWORD POSTGRES_PASSWORD POSTGRES_USER POSTGRES_DB PGHOST PGPORT PGUSER PGPASSWORD PGDATA PGDATABASE DB_URL
  CI GITHUB_ACTIONS GITHUB_REF GITHUB_SHA GITHUB_TOKEN GITHUB_WORKSPACE GITHUB_SERVER_URL GITLAB_CI CI_JOB_ID CI_JOB_TOKEN CI_PROJECT_DIR
  CI_REGISTRY BUILD_NUMBER BUILD_URL JOB_URL JENKINS_URL RUNNER_OS AWS_REGION AWS_PROFILE AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
  AWS_ENDPOINT_URL HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy SSL_CERT_FILE SSL_CERT_DIR SECRET_KEY API_URL BASE_URL
  ADMIN_USER LOG_DIR LOG_FILE DEBUG VERBOSE OTEL_SERVICE_NAME OTEL_LOGS_EXPORTER OTEL_METRICS_EXPORTER OTEL_RESOURCE_ATTRIBUTES
  OTEL_EXPORTER_OTLP_HEADERS OTEL_EXPORTER_OTLP_METRICS_ENDPOINT OTEL_EXPORTER_OTLP_PROTOCOL OTEL_TRACES_SAMPLER`

t.test('no other variable is reported', async (t) => {
  const env = Object.fromEntries(
    ordinaryVariables
      .trim()
      .split(/\s+/)
      .map((name) => [name, 'x']),
  )
  t.strictSame(unknownSettings({ ...env, TASKWRIGHT_PORT: 'tcp://10.0.0.1:3000' }), [])
  t.strictSame(unknownSettings(process.env), [], 'nor one of this process')
  const own = Object.values(settings).map(({ name }) => [name, 'x'] as const)
  t.strictSame(unknownSettings(Object.fromEntries([...own, ['JWT_SECRET_FILE', 'x']])), [], 'nor a setting')
})
