import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { mkdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Browser, type BrowserContext, chromium, type Locator, type Page } from 'playwright-core'
import { loadContract } from '../../src/contract/contract.ts'
import { eventually } from '../../test/fixture/eventually.ts'
import { blackPng } from '../../test/fixture/images.ts'
import { freePort } from '../../test/fixture/ports.ts'
import { startProcess, temporaryFolder } from '../../test/fixture/process.ts'
import { type Account, createClient, fileForm } from '../../test/fixture/service.ts'
import { authenticator } from '../../test/fixture/second-factor.ts'
import { startMailServer } from '../../test/fixture/smtp.ts'
import { findCommand, hasCommands } from '../run/commands.ts'
import { runToEnd, type Teardown } from '../run/run-to-end.ts'
import { exampleResults } from './examples.ts'

/**
 * Tests the pages in Chromium with the viewports of a desktop and a phone:
 *
 * - Swagger UI: find an operation, sign in, create a task, list it, upload and download a file, get a problem, reload, open a second tab, sign out.
 * - Swagger UI on the desktop: a new user executes the first example of each operation (examples.ts).
 * - Files by link, embedded in a page of another origin and opened directly.
 * - Password reset, with the keyboard only.
 * - Invitations, accepted with a new and with an existing account.
 *
 * Fails on unexpected error responses, exceptions, requests to other hosts and violations of the content security policy. Screenshots
 * are in .cache/screenshots.
 */

/** Milliseconds. */
const deadline = 1_200_000

/** Milliseconds to wait for an element. */
const elementTimeout = 60_000

const screenshots = fileURLToPath(new URL('../../.cache/screenshots', import.meta.url))

interface Device {
  readonly name: string
  readonly viewport: { readonly width: number; readonly height: number }
  readonly isPhone: boolean
  /** The path of PUBLIC_URL, or null to leave PUBLIC_URL unset. */
  readonly prefix: string | null
}

const devices: readonly Device[] = [
  { name: 'desktop', viewport: { width: 1280, height: 900 }, isPhone: false, prefix: null },
  { name: 'phone', viewport: { width: 390, height: 844 }, isPhone: true, prefix: '/deep/path' },
]

/** Not localhost, because Swagger UI treats localhost differently. */
const publicHost = 'tasks.example.test'

/** In addition to those of Playwright. */
const browserFlags = ['--disable-gpu', `--host-resolver-rules=MAP ${publicHost} 127.0.0.1`]

interface Service {
  /** For the browser. */
  readonly url: string
  /** Uses a local address, because this process cannot resolve the public host. */
  readonly client: ReturnType<typeof createClient>
  /** The log or the sent mails, which contain the links for users. */
  readonly messages: () => string
}

const startService = async (t: Teardown, { prefix }: Device): Promise<Service> => {
  const environment = { DATA_DIR: await temporaryFolder(t), LOG_LEVEL: 'info' }
  if (prefix === null) {
    const service = await startProcess(t, environment)
    const client = createClient(service.url, () => undefined)
    return { url: service.url, client, messages: () => service.output() }
  }
  const mailServer = await startMailServer(t)
  const port = String(await freePort())
  const url = `http://${publicHost}:${port}${prefix}`
  const SMTP_URL = `smtp://127.0.0.1:${mailServer.port}`
  await startProcess(t, { ...environment, PORT: port, PUBLIC_URL: url, SMTP_URL })
  const messages = (): string => mailServer.received.map(({ text }) => text).join('\n')
  return { url, client: createClient(`http://127.0.0.1:${port}`, () => undefined), messages }
}

/** A warning of Swagger UI before it correctly falls back to a plain field. */
const ignoredWarning = /^Could not find component: JsonSchema_string_\w+$/

interface ErrorMonitor {
  /** Allows error responses from a URL. */
  allowErrors(url: string): void
  /** Throws if there was an unexpected error. */
  check(): void
}

/** Records errors on the pages of a context. */
const monitorErrors = async (context: BrowserContext, origin: string): Promise<ErrorMonitor> => {
  const errors: string[] = []
  const allowed = new Set<string>()
  context.on('console', (message) => {
    const isAllowed = allowed.has(message.location().url) && message.text().startsWith('Failed to load')
    const isIgnored = message.type() === 'warning' && ignoredWarning.test(message.text())
    if (['error', 'warning'].includes(message.type()) && !isAllowed && !isIgnored)
      errors.push(`console ${message.type()}: ${message.text()} (${message.location().url})`)
  })
  context.on('weberror', (error) => errors.push(`exception: ${error.error().message}`))
  context.on('requestfailed', (request) =>
    errors.push(`failed request: ${request.method()} ${request.url()}: ${request.failure()?.errorText}`),
  )
  context.on('request', (request) => {
    const url = new URL(request.url())
    if (/^https?:$/.test(url.protocol) && url.origin !== origin)
      errors.push(`request to another host: ${url.href}`)
  })
  context.on('response', (response) => {
    if (response.status() >= 400 && !allowed.has(response.url()))
      errors.push(`response ${response.status()}: ${response.request().method()} ${response.url()}`)
  })
  await context.exposeFunction('reportViolation', (text: string) =>
    errors.push(`content security policy: ${text}`),
  )
  await context.addInitScript(`document.addEventListener('securitypolicyviolation', (event) =>
    window.reportViolation(event.effectiveDirective + ' ' + event.blockedURI))`)
  return {
    allowErrors: (url) => void allowed.add(url),
    check: () => assert.deepEqual(errors, [], 'There were errors on the page'),
  }
}

/** Evaluated in the page: opens the first `count` operations that are closed. */
const openClosed = (count: number): string => `[
  ...document.querySelectorAll('.opblock:not(.is-open) .opblock-summary-control')
].slice(0, ${count}).forEach((control) => control.click())`

/** Evaluated in the page. */
const allAreOpen = `[...document.querySelectorAll('.opblock')]
  .every((block) => block.querySelector('button.execute, .no-stream') !== null)`

/** The tags and ids of operations that end what the others need: the password of the examples, and the session. */
const executedLast = [
  ['passwords', 'changePassword'],
  ['auth', 'logout'],
] as const

/**
 * Evaluated in the page: executes the shown operations, one after the other, and resolves to [id, result] of each: `success`, the status
 * and the code of a problem, or that an id has to be entered first.
 */
const executeShown = `(async () => {
  const results = []
  for (const block of document.querySelectorAll('.opblock:has(button.execute)')) {
    const id = block.id.split('-').at(-1)
    if (${JSON.stringify(executedLast.flat())}.includes(id)) continue
    block.querySelector('button.execute').click()
    const find = (column) => block.querySelector('.live-responses-table tbody .response-col_' + column)?.textContent
    const needsId = () => block.querySelector('tr[data-param-in=path] input.invalid') !== null
    while (!find('status') && !needsId()) await new Promise((resolve) => setTimeout(resolve, 5))
    if (needsId()) {
      results.push([id, 'needs an id'])
      continue
    }
    const code = /"code": "(\\w+)"/.exec(find('description'))?.[1] ?? ''
    results.push([id, find('status') < '400' ? 'success' : find('status') + ' ' + code])
  }
  return results
})()`

/** Evaluated in the page: controls that need horizontal scrolling of the page. Containers that scroll themselves are allowed. */
const findOverflow = `(() => {
  const scrolls = (element) =>
    ['auto', 'scroll'].includes(getComputedStyle(element).overflowX) && element.scrollWidth > element.clientWidth
  const isInScroller = ({ parentElement: parent }) =>
    parent !== null && parent !== document.documentElement && (scrolls(parent) || isInScroller(parent))
  const width = document.documentElement.clientWidth
  const page = document.documentElement.scrollWidth
  const hidden = [...document.querySelectorAll('a, button, input, select, textarea')]
    .filter((control) => control.checkVisibility({ visibilityProperty: true, opacityProperty: true }))
    .map((control) => ({ control, box: control.getBoundingClientRect() }))
    .filter(({ box }) => box.width > 0 && (box.left < -1 || box.right > width + 1))
    .filter(({ control }) => !isInScroller(control))
    .map(({ control, box }) =>
      [control.tagName, control.className, control.textContent.trim().slice(0, 40), Math.round(box.left), Math.round(box.right)].join(' '))
  return [...(page > width ? ['the page is ' + page + ' px wide instead of ' + width] : []), ...hidden]
})()`

/** A page on a device, with the actions that tests share. */
class PageDriver {
  readonly page: Page
  readonly device: Device
  /** URL of the service. */
  readonly url: string
  #count = 0

  constructor(page: Page, device: Device, url: string) {
    this.page = page
    this.device = device
    this.url = url
  }

  /** Takes a screenshot. Fails if controls overflow the page horizontally. */
  async capture(title: string, focus?: Locator): Promise<void> {
    await focus?.scrollIntoViewIfNeeded()
    this.#count += 1
    const path = join(screenshots, `${this.device.name}-${this.#count}-${title}.png`)
    await this.page.screenshot({ path })
    const overflow = await this.page.evaluate<string[]>(findOverflow)
    assert.deepEqual(overflow, [], `${this.device.name}, ${title}: horizontal overflow`)
    console.log(`  ${title}`)
  }

  /** Opens the form of an operation. */
  async open(tag: string, operation: string): Promise<Locator> {
    await this.expand(this.page.locator(`#operations-tag-${tag}`))
    const block = this.page.locator(`#operations-${tag}-${operation}`)
    await block.locator('.opblock-summary-control').click()
    await block.locator('button.execute').waitFor()
    return block
  }

  /** Shows the operations of a tag. */
  async expand(tag: Locator): Promise<void> {
    if ((await tag.getAttribute('data-is-open')) !== 'true') await tag.locator('.expand-operation').click()
  }

  /**
   * Opens every operation, one tag at a time, all operations of a tag at once, because each click causes a new layout. Calls `visit` for
   * each tag. The last tag stays expanded.
   */
  async openAll(visit: () => Promise<void>): Promise<void> {
    const tags = await this.page.locator('.opblock-tag').all()
    for (const [index, tag] of tags.entries()) {
      await this.expand(tag)
      await this.page.evaluate(openClosed(Number.POSITIVE_INFINITY))
      await this.page.waitForFunction(allAreOpen)
      await visit()
      if (index < tags.length - 1) await tag.locator('.expand-operation').click()
    }
  }

  /** Submits the form. Resolves to the status and the displayed response. */
  async execute(block: Locator): Promise<{ readonly status: string; readonly shown: Locator }> {
    const received = this.page.waitForResponse(
      (response) =>
        response.request().resourceType() === 'fetch' && !response.url().endsWith('/auth/refresh'),
    )
    await block.locator('button.execute').click()
    const response = await received
    const shown = block.locator('.live-responses-table .response')
    await shown.locator('.response-col_status', { hasText: String(response.status()) }).waitFor()
    return { status: String(response.status()), shown }
  }

  /** Submits the form, expects a status and takes a screenshot. Resolves to the displayed response. */
  async submit(block: Locator, expected: string, title: string): Promise<Locator> {
    const { status, shown } = await this.execute(block)
    await this.capture(title, shown)
    assert.equal(status, expected)
    return shown
  }
}

/** How much longer an operation may take to open with 24 others open than alone. In Swagger UI by itself, each of them is drawn again. */
const openingLimit = 4

/** Opening an operation stays fast when others are open. */
const checkOpening = async (driver: PageDriver): Promise<void> => {
  const { page } = driver
  for (const tag of ['tasks', 'projects', 'notifications'])
    await driver.expand(page.locator(`#operations-tag-${tag}`))
  const showsForms = (count: number): Promise<unknown> =>
    page.waitForFunction(`document.querySelectorAll('.opblock button.execute').length === ${count}`)

  const summary = page.locator('.opblock-summary-control').first()
  const session = await page.context().newCDPSession(page)
  await session.send('Performance.enable', { timeDomain: 'threadTicks' })
  const processorTime = async (): Promise<number> => {
    const { metrics } = await session.send('Performance.getMetrics')
    return 1_000 * (metrics.find(({ name }) => name === 'TaskDuration')?.value ?? Number.NaN)
  }
  /** Processor time in milliseconds to open the first operation, which is closed again, while `others` are open. */
  const opening = async (others: number): Promise<number> => {
    const before = await processorTime()
    await summary.click()
    await showsForms(others + 1)
    const spent = Math.round((await processorTime()) - before)
    await summary.click()
    await showsForms(others)
    return spent
  }
  await opening(0)
  const alone = await opening(0)
  await page.evaluate(openClosed(25))
  await showsForms(25)
  await summary.click()
  await showsForms(24)
  const among = await opening(24)
  console.log(`  opening an operation takes ${alone} ms of processor time, with 24 open ${among}`)
  assert.ok(
    among < openingLimit * alone,
    `Opening an operation took ${among} ms of processor time, not ${alone}`,
  )
  await session.detach()
  await reload(driver)
}

/** The operations of expanded tags are all in the page, where the browser's own search finds them. */
const expandAll = async (driver: PageDriver): Promise<void> => {
  for (const tag of await driver.page.locator('.opblock-tag').all()) await driver.expand(tag)
  assert.equal(await driver.page.locator('.opblock').count(), loadContract().operations.size)
}

/** The filter finds an operation by its id, and shows it. A stream, which would never be shown, cannot be executed. */
const findById = async ({ page }: PageDriver): Promise<void> => {
  const filter = page.getByLabel('Filter by tag, operation, summary or path')
  await filter.fill('streamEvents')
  const block = page.locator('#operations-events-streamEvents')
  await block.locator('.opblock-summary-control').click()
  await block.getByText('This page cannot show a stream.').waitFor()
  assert.equal(await page.locator('.opblock').count(), 1)
  await filter.fill('nothing at all')
  await page.getByText('No tag, operation, summary or path contains “nothing at all”.').waitFor()
  await filter.fill('')
  await page.locator('#operations-tag-auth').waitFor()
}

const parameter = (block: Locator, name: string): Locator =>
  block.locator(`tr[data-param-name="${name}"] input`)

const jsonOf = async (shown: Locator): Promise<Record<string, unknown>> =>
  JSON.parse(await shown.locator('.highlight-code code').first().innerText()) as Record<string, unknown>

/** Signs in by executing the operation login. */
const signIn = async (driver: PageDriver, { email, password }: Account): Promise<void> => {
  const block = await driver.open('auth', 'login')
  await block.locator('textarea.body-param__text').fill(JSON.stringify({ email, password }))
  await driver.submit(block, '200', 'signed-in')
  await driver.page.getByText('Signed in as lin').waitFor()
}

/** Executes an operation that needs a token but no input. Resolves to the status. */
const executeCurrentUser = async (driver: PageDriver): Promise<string> => {
  const block = driver.page.locator('#operations-auth-getCurrentUser')
  if (!(await block.locator('button.execute').isVisible())) await driver.open('auth', 'getCurrentUser')
  const { status } = await driver.execute(block)
  return status
}

const reload = async ({ page }: PageDriver): Promise<void> => {
  await page.reload()
  await page.locator('.opblock-tag').first().waitFor()
}

/** Registers with the example of `register`, and executes the first example of each operation as Swagger UI fills it in. */
const executeExamples = async (browser: Browser, device: Device, url: string): Promise<void> => {
  const page = await browser.newPage({ viewport: device.viewport })
  const driver = new PageDriver(page, device, url)
  const errors: string[] = []
  page.on('pageerror', ({ message }) => errors.push(message))
  await page.goto(`${url}/docs`)
  await page.locator('.opblock-tag').first().waitFor()
  const results = new Map<string, string>()
  await driver.openAll(async () => {
    for (const input of await page.locator('input[type=file]').all())
      await input.setInputFiles({ name: 'notes.txt', mimeType: 'text/plain', buffer: Buffer.from('A file') })
    for (const [id, result] of await page.evaluate<[string, string][]>(executeShown)) results.set(id, result)
  })
  await driver.capture('all-operations-executed', page.locator('.opblock').last())
  for (const [tag, id] of executedLast) {
    await driver.expand(page.locator(`#operations-tag-${tag}`))
    const { status } = await driver.execute(page.locator(`#operations-${tag}-${id}`))
    results.set(id, status < '400' ? 'success' : status)
  }
  assert.deepEqual(Object.fromEntries(results), Object.fromEntries(exampleResults()))
  await expandAll(driver)
  assert.deepEqual(errors, [])
  await page.close()
}

/** Evaluated in the page: advances its clock by more than the lifetime of an access token. */
const advanceClock = `{
  const now = Date.now
  Date.now = () => now() + 900_000
}`

/** A tab stays signed in on other pages and when its token expires, and tabs share refreshed tokens. */
const checkSession = async (driver: PageDriver, monitor: ErrorMonitor): Promise<void> => {
  const { page, device, url } = driver
  await checkStartPage(driver, 'Signed in as lin')
  await page.getByText('Signed in as lin').waitFor()
  assert.equal(await executeCurrentUser(driver), '200')

  const refreshed: string[] = []
  const opened = page.waitForEvent('popup')
  await page.evaluate('void open(location.href)')
  const other = new PageDriver(await opened, device, url)
  await other.page.locator('.opblock-tag').first().waitFor()
  for (const tab of [page, other.page])
    tab.on('response', (response) => {
      if (response.url().endsWith('/auth/refresh')) refreshed.push(`${response.status()}`)
    })
  for (const tab of [other, driver]) {
    await tab.page.getByText('Signed in as lin').waitFor()
    await tab.page.evaluate(advanceClock)
  }
  assert.equal(await executeCurrentUser(other), '200')
  assert.deepEqual(refreshed, ['200'], 'The expired token was not refreshed')
  assert.equal(await executeCurrentUser(driver), '200')
  assert.deepEqual(refreshed, ['200'], 'The other tab did not use the new tokens')
  await driver.capture('after-a-refresh')
  monitor.check()
  await signOut(driver, monitor)
  await other.page.getByText('Not signed in').waitFor()
  await other.page.close()
}

/** The start page knows the session of the tab. */
const checkStartPage = async (driver: PageDriver, state: string): Promise<void> => {
  const { page, url } = driver
  await page.goto(`${url}/`)
  await page.getByRole('status').filter({ hasText: state }).waitFor()
  await driver.capture('start')
  await page.goto(`${url}/docs`)
  await page.locator('.opblock-tag').first().waitFor()
}

const signOut = async (driver: PageDriver, monitor: ErrorMonitor): Promise<void> => {
  const { status } = await driver.execute(await driver.open('auth', 'logout'))
  assert.equal(status, '204')
  await driver.page.getByText('Not signed in').waitFor()
  monitor.allowErrors(`${driver.url}/auth/me`)
  assert.equal(await executeCurrentUser(driver), '401')
  await checkStartPage(driver, 'Not signed in: register or sign in in Swagger UI.')
  await driver.page.getByText('Not signed in').waitFor()
}

/** Enters a token in the dialog, as for API tokens. */
const authorize = async (driver: PageDriver, token: string): Promise<void> => {
  const { page } = driver
  await page.locator('.auth-wrapper button.authorize').first().click()
  const dialog = page.locator('.dialog-ux .modal-ux')
  await dialog.locator('input').fill(token)
  await driver.capture('authorize')
  await dialog.getByRole('button', { name: 'Apply credentials' }).click()
  await dialog.getByText('Authorized').waitFor()
  await dialog.getByRole('button', { name: 'Close' }).first().click()
  await reload(driver)
  assert.equal(await executeCurrentUser(driver), '200')
  await page.locator('.auth-wrapper button.authorize').first().click()
  await dialog.getByRole('button', { name: 'Remove authorization' }).click()
  await dialog.getByRole('button', { name: 'Close' }).first().click()
  await page.getByText('Not signed in').waitFor()
}

const createTask = async (driver: PageDriver): Promise<string> => {
  const block = await driver.open('tasks', 'createTask')
  await driver.capture('create-a-task', block)
  const task = await jsonOf(await driver.submit(block, '201', 'created'))
  assert.equal(task.title, 'Write the release notes')
  return String(task.id)
}

/** Lists tasks with the default parameters, and expects the task. */
const findInList = async (driver: PageDriver, taskId: string): Promise<void> => {
  const block = await driver.open('tasks', 'listTasks')
  const { items } = await jsonOf(await driver.submit(block, '200', 'list'))
  assert.deepEqual(
    (items as { id: string }[]).map(({ id }) => id),
    [taskId],
  )
}

const upload = async (driver: PageDriver, taskId: string, content: Buffer): Promise<string> => {
  const block = await driver.open('attachments', 'addTaskAttachment')
  await parameter(block, 'task_id').fill(taskId)
  await block
    .locator('input[type=file]')
    .setInputFiles({ name: 'notes.bin', mimeType: 'application/octet-stream', buffer: content })
  await driver.capture('upload-a-file', block.locator('input[type=file]'))
  const attachment = await jsonOf(await driver.submit(block, '201', 'uploaded'))
  assert.deepEqual([attachment.file_name, attachment.size], ['notes.bin', content.length])
  return String(attachment.id)
}

const download = async (driver: PageDriver, attachmentId: string, content: Buffer): Promise<void> => {
  const block = await driver.open('attachments', 'downloadAttachment')
  await parameter(block, 'attach_id').fill(attachmentId)
  const shown = await driver.submit(block, '200', 'download-a-file')
  const downloading = driver.page.waitForEvent('download')
  await shown.getByText('Download file').click()
  const file = await downloading
  assert.equal(file.suggestedFilename(), 'notes.bin')
  assert.ok(content.equals(await readFile(await file.path())), 'The download differs from the upload')
}

/** A millisecond of silence. */
const wav = Buffer.from('UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==', 'base64')

/** A page of another origin embeds an image by link, and the browser plays audio by link. */
const openLinks = async (
  context: BrowserContext,
  { url, client }: Service,
  { token }: Account,
  taskId: string,
): Promise<void> => {
  const linkTo = async (content: Buffer, type: string): Promise<string> => {
    const upload = { token, params: { task_id: taskId }, body: fileForm(content, 'file', type) }
    const { body: attachment } = await client.expect('addTaskAttachment', 201, upload)
    const creation = { token, params: { attach_id: attachment.id }, body: { disposition: 'inline' } }
    return new URL((await client.expect('createAttachmentLink', 201, creation)).body.url, url).href
  }
  const page = await context.newPage()
  await page.setContent(`<img src="${await linkTo(blackPng({ width: 8, height: 8 }), 'image/png')}">`)
  const width = await page.evaluate(
    `(async () => { const image = document.querySelector('img'); await image.decode(); return image.naturalWidth })()`,
  )
  assert.equal(width, 8)
  await page.goto(await linkTo(wav, 'audio/wav'))
  await page.waitForFunction(`document.querySelector('video')?.readyState > 0`)
  await page.close()
}

const expectProblem = async (driver: PageDriver): Promise<void> => {
  const block = driver.page.locator('#operations-tasks-createTask')
  await block.locator('textarea.body-param__text').fill('{ "title": "" }')
  const problem = await jsonOf(await driver.submit(block, '400', 'problem'))
  assert.equal(problem.code, 'invalid_request')
  assert.deepEqual((problem.errors as { pointer: string }[])[0]?.pointer, '/title')
}

/** Fills and submits the form with the keyboard. Resolves when the page shows the message. */
const setPassword = async (
  { page }: PageDriver,
  first: string,
  second: string,
  message: RegExp,
): Promise<void> => {
  await page.getByLabel('New password', { exact: true }).focus()
  await page.keyboard.press('ControlOrMeta+A')
  await page.keyboard.type(first)
  await page.keyboard.press('Tab')
  await page.keyboard.press('ControlOrMeta+A')
  await page.keyboard.type(second)
  await page.keyboard.press('Enter')
  await page.getByRole('status').filter({ hasText: message }).waitFor()
}

const resetPassword = async (
  driver: PageDriver,
  { url, client, messages }: Service,
  { email, password }: Account,
): Promise<void> => {
  const { page } = driver
  await client.expect('forgotPassword', 202, { body: { email } })
  const findLink = (): string | undefined => /http:\S+\/password-reset#token=[\w-]+/.exec(messages())?.[0]
  await eventually('the link is sent', async () => findLink() !== undefined)
  const link = findLink() ?? ''
  assert.ok(link.startsWith(`${url}/password-reset#`), link)

  await page.goto(link)
  await page.getByLabel('New password', { exact: true }).waitFor()
  assert.equal(page.url(), `${url}/password-reset`, 'The token stays in the address')
  await setPassword(driver, 'one of them', 'another', /do not match/)
  await driver.capture('passwords-differ')
  await setPassword(driver, 'short', 'short', /8 characters/)
  await driver.capture('password-too-short')
  const renewed = `${password}, renewed`
  await setPassword(driver, renewed, renewed, /was changed/)
  await driver.capture('password-changed')
  await client.expect('login', 200, { body: { email, password: renewed } })
  await client.expect('login', 401, { body: { email, password } })

  await page.goto(link)
  await setPassword(driver, password, password, /./)
  await driver.capture('link-used-twice')
  await client.expect('login', 200, { body: { email, password: renewed } })
  await page.reload()
  await page.getByText('incomplete').waitFor()
  await driver.capture('link-without-a-token')
}

/** Sends an invitation. Resolves to its link. */
const invite = async ({ client, messages }: Service, { token }: Account): Promise<string> => {
  const findLinks = (): readonly string[] => messages().match(/http:\S+\/invitation#token=[\w-]+/g) ?? []
  const before = findLinks().length
  const { body: project } = await client.expect('createProject', 201, { token, body: { name: 'Website' } })
  const invitation = { email: `invited-${before}@example.com`, role: 'editor' }
  await client.expect('createInvitation', 201, {
    token,
    params: { project_id: project.id },
    body: invitation,
  })
  await eventually('the link is sent', async () => findLinks().length > before)
  return findLinks().at(-1) ?? ''
}

const acceptInvitations = async (driver: PageDriver, service: Service, manager: Account): Promise<void> => {
  const { page } = driver
  const expectMessage = (text: RegExp): Promise<void> =>
    page.getByRole('status').filter({ hasText: text }).waitFor()
  const fill = async (fields: Readonly<Record<string, string>>): Promise<void> => {
    for (const [label, text] of Object.entries(fields)) await page.getByLabel(label).fill(text)
    await page.getByRole('button').click()
  }
  const password = 'battery horse'
  const first = await invite(service, manager)
  await page.goto(first)
  await page.getByText('invited you to the project “Website” as an editor').waitFor()
  assert.equal(page.url(), `${service.url}/invitation`, 'The token stays in the address')
  await driver.capture('invitation')
  await page.getByLabel('I need an account').check()
  await fill({ Username: 'Grace', 'Email address': 'grace', Password: 'short' })
  await expectMessage(/^Username .+\. Email address .+\. Password .+\.$/)
  assert.equal(await page.locator('[aria-invalid]').count(), 3)
  await driver.capture('invitation-rejected')
  await fill({ Username: 'grace', 'Email address': 'grace@example.com', Password: password })
  await expectMessage(/You are a member/)
  await driver.capture('invitation-accepted')

  const { client } = service
  const login = { body: { email: 'grace@example.com', password } }
  const { access_token: token } = (await client.expect('login', 200, login)).body
  const { secret } = (await client.expect('enrollSecondFactor', 201, { token, body: { password } })).body
  const confirmation = { token, body: { code: authenticator(secret)() } }
  const [code = ''] = (await client.expect('confirmSecondFactor', 200, confirmation)).body.recovery_codes
  await page.goto(await invite(service, manager))
  await page.getByText('invited you').waitFor()
  await fill({ 'Email address': 'grace@example.com', Password: 'forgotten' })
  await expectMessage(/password is wrong/)
  await fill({ Password: password })
  await expectMessage(/has a second factor/)
  await driver.capture('invitation-second-factor')
  await fill({ 'Code from your authenticator': code })
  await expectMessage(/You are a member/)
  const projects = await client.expect('listProjects', 200, { token })
  assert.deepEqual(
    projects.body.items.map(({ role }) => role),
    ['editor', 'editor'],
  )

  await page.goto(first)
  await expectMessage(/already used/)
  assert.equal(await page.getByRole('button').isVisible(), false)
  await driver.capture('invitation-used-twice')
}

const testDevice = async (t: Teardown, browser: Browser, device: Device): Promise<void> => {
  console.log(device.name)
  const service = await startService(t, device)
  const { url, client } = service
  const account = await client.register('lin')
  const context = await browser.newContext({
    viewport: device.viewport,
    isMobile: device.isPhone,
    hasTouch: device.isPhone,
  })
  context.setDefaultTimeout(elementTimeout)
  const monitor = await monitorErrors(context, new URL(url).origin)
  const page = await context.newPage()
  const driver = new PageDriver(page, device, url)

  await page.goto(`${url}/`)
  await driver.capture('root')
  await page.getByRole('link', { name: /Swagger UI/ }).click()
  await page.locator('.opblock-tag').first().waitFor()
  await driver.capture('docs')
  monitor.check()
  if (!device.isPhone) await checkOpening(driver)
  await findById(driver)
  await signIn(driver, account)
  const taskId = await createTask(driver)
  await findInList(driver, taskId)
  const content = Buffer.from(`${randomUUID()}\0\r\n\u00ff${'x'.repeat(100_000)}`)
  const attachmentId = await upload(driver, taskId, content)
  await download(driver, attachmentId, content)
  await openLinks(context, service, account, taskId)
  monitor.check()
  monitor.allowErrors(`${url}/tasks`)
  await expectProblem(driver)
  if (device.isPhone) {
    await driver.openAll(async () => undefined)
    await driver.capture('all-operations-open', page.locator('.opblock').last())
  }
  monitor.check()
  await checkSession(driver, monitor)
  await authorize(driver, account.token)
  monitor.check()
  monitor.check()
  await page.goto(`${url}/problems/invalid_request`)
  await page.getByText('invalid_request').waitFor()
  await driver.capture('problem-page')
  monitor.check()
  monitor.allowErrors(`${url}/auth/password/reset`)
  await resetPassword(driver, service, account)
  monitor.check()
  for (const path of ['auth/register', 'auth/login', 'invitations/lookup'])
    monitor.allowErrors(`${url}/${path}`)
  // The password change has ended the sessions of the first account.
  const manager = await client.register('manager')
  await acceptInvitations(driver, service, manager)
  monitor.check()
  await context.close()
  if (!device.isPhone) await executeExamples(browser, device, url)
}

const run = async (t: Teardown): Promise<void> => {
  if (!hasCommands(['chromium'])) return
  await rm(screenshots, { recursive: true, force: true })
  await mkdir(screenshots, { recursive: true })
  const executablePath = findCommand('chromium') ?? ''
  const browser = await chromium.launch({ executablePath, args: browserFlags })
  t.teardown(() => browser.close())
  for (const device of devices) await testDevice(t, browser, device)
  console.log(`The pages work on ${devices.map(({ name }) => name).join(' and ')}.`)
}

await runToEnd('browser', deadline, run)
