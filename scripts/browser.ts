import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { rmSync } from 'node:fs'
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Browser, type BrowserContext, chromium, type Locator, type Page } from 'playwright-core'
import { eventually } from '../test/fixture/eventually.ts'
import { blackPng } from '../test/fixture/images.ts'
import { freePort } from '../test/fixture/ports.ts'
import { startProcess, temporaryFolder } from '../test/fixture/process.ts'
import { type Account, createClient, fileForm } from '../test/fixture/service.ts'
import { authenticator } from '../test/fixture/second-factor.ts'
import { startMailServer } from '../test/fixture/smtp.ts'
import { findCommand } from './commands.ts'
import { runToEnd, type Teardown } from './run-to-end.ts'

/**
 * The pages in a real browser, on a desktop and on a phone. Swagger UI as a newcomer uses it: sign in, create a task, find
 * it in the unedited list, upload a file, download it, see a problem, reload, open a second tab, sign out. The reference.
 * Files by link, on a page of another origin and in the browser itself. A forgotten password, from the link to the new
 * one, by keyboard alone. Invitations to a project, accepted with a new account and with an old one. Nothing may be refused, missing, thrown, requested from another host or blocked by the page's
 * policy.
 * Screenshots go to .cache/screenshots.
 */

/** Milliseconds for all of it. */
const deadline = 600_000

/** Milliseconds for one thing to appear on a page. */
const patience = 60_000

const screenshots = fileURLToPath(new URL('../.cache/screenshots', import.meta.url))

interface Scene {
  readonly name: string
  readonly viewport: { readonly width: number; readonly height: number }
  readonly isPhone: boolean
  /** What the path of PUBLIC_URL is; null when there is no PUBLIC_URL. */
  readonly prefix: string | null
}

const scenes: readonly Scene[] = [
  { name: 'desktop', viewport: { width: 1280, height: 900 }, isPhone: false, prefix: null },
  { name: 'phone', viewport: { width: 390, height: 844 }, isPhone: true, prefix: '/deep/path' },
]

/** A name that is not localhost, so that what Swagger UI does for real hosts only is seen too. */
const publicHost = 'tasks.example.test'

const browserFlags = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  `--host-resolver-rules=MAP ${publicHost} 127.0.0.1`,
]

const findChromium = (): string | null =>
  ['chromium', 'chromium-browser', 'google-chrome'].map(findCommand).find((path) => path !== null) ?? null

/** A service of a scene: its address for the browser and for this process, and what people read beside it. */
interface Served {
  readonly url: string
  readonly reachable: string
  /** Everything that leaves the service but by its answers: the log of a developer, or the mails. */
  readonly outside: () => string
}

const startService = async (t: Teardown, { prefix }: Scene): Promise<Served> => {
  const environment = { DATA_DIR: await temporaryFolder(t), LOG_LEVEL: 'info' }
  if (prefix === null) {
    const service = await startProcess(t, environment)
    return { url: service.url, reachable: service.url, outside: () => service.output() }
  }
  const mailServer = await startMailServer(t)
  const port = String(await freePort())
  const url = `http://${publicHost}:${port}${prefix}`
  const SMTP_URL = `smtp://127.0.0.1:${mailServer.port}`
  await startProcess(t, { ...environment, PORT: port, PUBLIC_URL: url, SMTP_URL })
  const outside = (): string => mailServer.received.map(({ text }) => text).join('\n')
  return { url, reachable: `http://127.0.0.1:${port}`, outside }
}

/** Said by Swagger UI before it takes the plain field, which is right. */
const harmless = /^Could not find component: JsonSchema_string_\w+$/

interface Cleanness {
  /** A request to this address may be refused. */
  expectRefusal(url: string): void
  /** Throws when anything has gone wrong so far. */
  check(): void
}

/** Everything that goes wrong on the pages of a context, but for the answers that a scene asks for. */
const watch = async (context: BrowserContext, origin: string): Promise<Cleanness> => {
  const troubles: string[] = []
  const expected = new Set<string>()
  context.on('console', (message) => {
    const isExpected = expected.has(message.location().url) && message.text().startsWith('Failed to load')
    const isHarmless = message.type() === 'warning' && harmless.test(message.text())
    if (['error', 'warning'].includes(message.type()) && !isExpected && !isHarmless)
      troubles.push(`console ${message.type()}: ${message.text()} (${message.location().url})`)
  })
  context.on('weberror', (error) => troubles.push(`thrown: ${error.error().message}`))
  context.on('requestfailed', (request) =>
    troubles.push(`failed: ${request.method()} ${request.url()}: ${request.failure()?.errorText}`),
  )
  context.on('request', (request) => {
    const url = new URL(request.url())
    if (/^https?:$/.test(url.protocol) && url.origin !== origin) troubles.push(`foreign request: ${url.href}`)
  })
  context.on('response', (response) => {
    if (response.status() >= 400 && !expected.has(response.url()))
      troubles.push(`answer ${response.status()}: ${response.request().method()} ${response.url()}`)
  })
  await context.exposeFunction('reportViolation', (text: string) => troubles.push(`policy: ${text}`))
  await context.addInitScript(`document.addEventListener('securitypolicyviolation', (event) =>
    window.reportViolation(event.effectiveDirective + ' ' + event.blockedURI))`)
  return {
    expectRefusal: (url) => void expected.add(url),
    check: () => assert.deepEqual(troubles, [], 'The page is not clean'),
  }
}

/** Runs in the page. */
const clickAllClosed = `document
  .querySelectorAll('.opblock:not(.is-open) .opblock-summary-control')
  .forEach((control) => control.click())`

/** Names of what a person would have to scroll the page sideways for. A row of tabs that scrolls by itself is in reach. */
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
  return [...(page > width ? ['the page is ' + page + ' wide, not ' + width] : []), ...hidden]
})()`

/** A page of a scene, and what can be done with it. */
class Stage {
  readonly page: Page
  readonly scene: Scene
  /** Of the service. */
  readonly url: string
  #count = 0

  constructor(page: Page, scene: Scene, url: string) {
    this.page = page
    this.scene = scene
    this.url = url
  }

  /** Takes a picture of what is seen, and requires that nothing is out of reach at the side. */
  async show(title: string, focus?: Locator): Promise<void> {
    await focus?.scrollIntoViewIfNeeded()
    this.#count += 1
    const path = join(screenshots, `${this.scene.name}-${this.#count}-${title}.png`)
    await this.page.screenshot({ path })
    const overflow = await this.page.evaluate<string[]>(findOverflow)
    assert.deepEqual(overflow, [], `${this.scene.name}, ${title}: out of reach at the side`)
    console.log(`  ${title}`)
  }

  /** Opens an operation, whose form is then ready. */
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
   * Opens every operation that is not open yet, a tag at a time; those of a tag in one go, since the page is laid out anew after each
   * click. The last tag stays expanded.
   */
  async openAll(): Promise<void> {
    const closed = this.page.locator('.opblock:not(.is-open)')
    const tags = await this.page.locator('.opblock-tag').all()
    for (const [index, tag] of tags.entries()) {
      await this.expand(tag)
      await this.page.evaluate(clickAllClosed)
      await closed.first().waitFor({ state: 'detached' })
      if (index < tags.length - 1) await tag.locator('.expand-operation').click()
    }
  }

  /** Sends what the form holds; answers with the status and the body that the page shows. */
  async execute(block: Locator): Promise<{ readonly status: string; readonly answer: Locator }> {
    const answered = this.page.waitForResponse(
      (response) =>
        response.request().resourceType() === 'fetch' && !response.url().endsWith('/auth/refresh'),
    )
    await block.locator('button.execute').click()
    const response = await answered
    const answer = block.locator('.live-responses-table .response')
    await answer.locator('.response-col_status', { hasText: String(response.status()) }).waitFor()
    return { status: String(response.status()), answer }
  }
}

const parameter = (block: Locator, name: string): Locator =>
  block.locator(`tr[data-param-name="${name}"] input`)

const jsonOf = async (answer: Locator): Promise<Record<string, unknown>> =>
  JSON.parse(await answer.locator('.highlight-code code').first().innerText()) as Record<string, unknown>

/** Signs in by executing the operation, as the page tells newcomers to. */
const signIn = async (stage: Stage, { email, password }: Account): Promise<void> => {
  const block = await stage.open('auth', 'login')
  await block.locator('textarea.body-param__text').fill(JSON.stringify({ email, password }))
  const { status, answer } = await stage.execute(block)
  await stage.show('signed-in', answer)
  assert.equal(status, '200')
  await stage.page.getByText('Signed in as ada').waitFor()
}

/** Executes an operation that needs a token and no input; answers with the status. */
const executeCurrentUser = async (stage: Stage): Promise<string> => {
  const block = stage.page.locator('#operations-auth-getCurrentUser')
  if (!(await block.locator('button.execute').isVisible())) await stage.open('auth', 'getCurrentUser')
  const { status } = await stage.execute(block)
  return status
}

const reload = async ({ page }: Stage): Promise<void> => {
  await page.reload()
  await page.locator('.opblock-tag').first().waitFor()
}

/** Runs in the page: its clock goes on by more than an access token lasts. */
const passTime = `{
  const now = Date.now
  Date.now = () => now() + 900_000
}`

/** The tab stays signed in after a reload and when its token expires. Tabs with the same tokens do not sign each other out. */
const staySignedIn = async (stage: Stage, clean: Cleanness): Promise<void> => {
  const { page, scene, url } = stage
  await reload(stage)
  await page.getByText('Signed in as ada').waitFor()
  assert.equal(await executeCurrentUser(stage), '200')

  const refreshed: string[] = []
  const opened = page.waitForEvent('popup')
  await page.evaluate('void open(location.href)')
  const other = new Stage(await opened, scene, url)
  await other.page.locator('.opblock-tag').first().waitFor()
  for (const tab of [page, other.page])
    tab.on('response', (response) => {
      if (response.url().endsWith('/auth/refresh')) refreshed.push(`${response.status()}`)
    })
  for (const tab of [other, stage]) {
    await tab.page.getByText('Signed in as ada').waitFor()
    await tab.page.evaluate(passTime)
  }
  assert.equal(await executeCurrentUser(other), '200')
  assert.deepEqual(refreshed, ['200'], 'The expired token was not refreshed')
  assert.equal(await executeCurrentUser(stage), '200')
  assert.deepEqual(refreshed, ['200'], 'The new tokens did not reach the other tab')
  await stage.show('after-a-refresh')
  clean.check()
  await signOut(stage, clean)
  await other.page.getByText('Not signed in').waitFor()
  await other.page.close()
}

const signOut = async (stage: Stage, clean: Cleanness): Promise<void> => {
  const { status } = await stage.execute(await stage.open('auth', 'logout'))
  assert.equal(status, '204')
  await stage.page.getByText('Not signed in').waitFor()
  clean.expectRefusal(`${stage.url}/auth/me`)
  assert.equal(await executeCurrentUser(stage), '401')
  await reload(stage)
  await stage.page.getByText('Not signed in').waitFor()
}

/** Gives the page a token by hand, as API tokens are. */
const authorize = async (stage: Stage, token: string): Promise<void> => {
  const { page } = stage
  await page.locator('.auth-wrapper button.authorize').first().click()
  const dialog = page.locator('.dialog-ux .modal-ux')
  await dialog.locator('input').fill(token)
  await stage.show('authorize')
  await dialog.getByRole('button', { name: 'Apply credentials' }).click()
  await dialog.getByText('Authorized').waitFor()
  await dialog.getByRole('button', { name: 'Close' }).first().click()
  await reload(stage)
  assert.equal(await executeCurrentUser(stage), '200')
  await page.locator('.auth-wrapper button.authorize').first().click()
  await dialog.getByRole('button', { name: 'Remove authorization' }).click()
  await dialog.getByRole('button', { name: 'Close' }).first().click()
  await page.getByText('Not signed in').waitFor()
}

const read = async (stage: Stage): Promise<void> => {
  const { page } = stage
  await page.getByRole('link', { name: 'Reference', exact: true }).click()
  await page.getByRole('heading', { name: 'Taskwright' }).waitFor()
  await stage.show('reference')
  await page.goto(`${stage.url}/reference#tag/tasks/POST/tasks`)
  await page.getByRole('heading', { name: 'Create a task' }).waitFor()
  await page.getByText('tasks:write').first().waitFor()
  await stage.show('reference-create-a-task')
  await page.emulateMedia({ colorScheme: 'dark' })
  await page.reload()
  await page.getByRole('heading', { name: 'Create a task' }).waitFor()
  await stage.show('reference-in-the-dark')
  await page.goto(`${stage.url}/docs#/tasks/createTask`)
  await page.locator('#operations-tasks-createTask button.execute').waitFor()
  await stage.show('docs-in-the-dark', page.locator('#operations-tasks-createTask'))
  await page.emulateMedia({ colorScheme: 'light' })
}

const createTask = async (stage: Stage): Promise<string> => {
  const block = await stage.open('tasks', 'createTask')
  await stage.show('create-a-task', block)
  const { status, answer } = await stage.execute(block)
  await stage.show('created', answer)
  assert.equal(status, '201')
  const task = await jsonOf(answer)
  assert.equal(task.title, 'Write the release notes')
  return String(task.id)
}

/** The list as the page offers it, without an edit, holds the task. */
const findInList = async (stage: Stage, taskId: string): Promise<void> => {
  const block = await stage.open('tasks', 'listTasks')
  const { status, answer } = await stage.execute(block)
  await stage.show('list', answer)
  assert.equal(status, '200')
  const { items } = await jsonOf(answer)
  assert.deepEqual(
    (items as { id: string }[]).map(({ id }) => id),
    [taskId],
  )
}

const upload = async (stage: Stage, taskId: string, content: Buffer): Promise<string> => {
  const block = await stage.open('attachments', 'addTaskAttachment')
  await parameter(block, 'task_id').fill(taskId)
  await block
    .locator('input[type=file]')
    .setInputFiles({ name: 'notes.bin', mimeType: 'application/octet-stream', buffer: content })
  await stage.show('upload-a-file', block.locator('input[type=file]'))
  const { status, answer } = await stage.execute(block)
  await stage.show('uploaded', answer)
  assert.equal(status, '201')
  const attachment = await jsonOf(answer)
  assert.deepEqual([attachment.file_name, attachment.size], ['notes.bin', content.length])
  return String(attachment.id)
}

const download = async (stage: Stage, attachmentId: string, content: Buffer): Promise<void> => {
  const block = await stage.open('attachments', 'downloadAttachment')
  await parameter(block, 'attach_id').fill(attachmentId)
  const { status, answer } = await stage.execute(block)
  await stage.show('download-a-file', answer)
  assert.equal(status, '200')
  const offered = stage.page.waitForEvent('download')
  await answer.getByText('Download file').click()
  const file = await offered
  assert.equal(file.suggestedFilename(), 'notes.bin')
  assert.ok(content.equals(await readFile(await file.path())), 'The download is not what was uploaded')
}

/** A millisecond of silence. */
const wav = Buffer.from('UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==', 'base64')

/** A page of another origin displays an image by link, and the browser plays a sound by link. */
const openLinks = async (
  context: BrowserContext,
  { url, reachable }: Served,
  { token }: Account,
  taskId: string,
): Promise<void> => {
  const client = createClient(reachable, () => undefined)
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

const seeAProblem = async (stage: Stage): Promise<void> => {
  const block = stage.page.locator('#operations-tasks-createTask')
  await block.locator('textarea.body-param__text').fill('{ "title": "" }')
  const { status, answer } = await stage.execute(block)
  await stage.show('problem', answer)
  assert.equal(status, '400')
  const problem = await jsonOf(answer)
  assert.equal(problem.code, 'invalid_request')
  assert.deepEqual((problem.errors as { pointer: string }[])[0]?.pointer, '/title')
}

/** Fills the form and sends it, without a mouse; resolves when the page says what came of it. */
const setPassword = async (
  { page }: Stage,
  first: string,
  second: string,
  outcome: RegExp,
): Promise<void> => {
  await page.getByLabel('New password', { exact: true }).focus()
  await page.keyboard.press('ControlOrMeta+A')
  await page.keyboard.type(first)
  await page.keyboard.press('Tab')
  await page.keyboard.press('ControlOrMeta+A')
  await page.keyboard.type(second)
  await page.keyboard.press('Enter')
  await page.getByRole('status').filter({ hasText: outcome }).waitFor()
}

const resetPassword = async (
  stage: Stage,
  { url, reachable, outside }: Served,
  { email, password }: Account,
): Promise<void> => {
  const { page } = stage
  const client = createClient(reachable, () => undefined)
  await client.expect('forgotPassword', 202, { body: { email } })
  const findLink = (): string | undefined => /http:\S+\/password-reset#token=[\w-]+/.exec(outside())?.[0]
  await eventually('there is a link', async () => findLink() !== undefined)
  const link = findLink() ?? ''
  assert.ok(link.startsWith(`${url}/password-reset#`), link)

  await page.goto(link)
  await page.getByLabel('New password', { exact: true }).waitFor()
  assert.equal(page.url(), `${url}/password-reset`, 'The token stays in the address')
  await page.emulateMedia({ colorScheme: 'dark' })
  await stage.show('reset-a-password-in-the-dark')
  await page.emulateMedia({ colorScheme: 'light' })
  await setPassword(stage, 'one of them', 'another', /do not match/)
  await stage.show('two-passwords')
  await setPassword(stage, 'short', 'short', /8 characters/)
  await stage.show('password-too-short')
  const renewed = `${password}, renewed`
  await setPassword(stage, renewed, renewed, /was changed/)
  await stage.show('password-changed')
  await client.expect('login', 200, { body: { email, password: renewed } })
  await client.expect('login', 401, { body: { email, password } })

  await page.goto(link)
  await setPassword(stage, password, password, /./)
  await stage.show('link-used-twice')
  await client.expect('login', 200, { body: { email, password: renewed } })
  await page.reload()
  await page.getByText('incomplete').waitFor()
  await stage.show('link-without-a-token')
}

/** Invites somebody, and reads the link of the mail. */
const invite = async ({ reachable, outside }: Served, { token }: Account): Promise<string> => {
  const client = createClient(reachable, () => undefined)
  const findLinks = (): readonly string[] => outside().match(/http:\S+\/invitation#token=[\w-]+/g) ?? []
  const before = findLinks().length
  const { body: project } = await client.expect('createProject', 201, { token, body: { name: 'Website' } })
  const invitation = { email: `invited-${before}@example.com`, role: 'editor' }
  await client.expect('createInvitation', 201, {
    token,
    params: { project_id: project.id },
    body: invitation,
  })
  await eventually('there is a link', async () => findLinks().length > before)
  return findLinks().at(-1) ?? ''
}

const acceptInvitations = async (stage: Stage, served: Served, manager: Account): Promise<void> => {
  const { page } = stage
  const says = (text: RegExp): Promise<void> => page.getByRole('status').filter({ hasText: text }).waitFor()
  const fill = async (fields: Readonly<Record<string, string>>): Promise<void> => {
    for (const [label, text] of Object.entries(fields)) await page.getByLabel(label).fill(text)
    await page.getByRole('button').click()
  }
  const password = 'battery horse'
  const first = await invite(served, manager)
  await page.goto(first)
  await page.getByText('invited you to the project “Website” as an editor').waitFor()
  assert.equal(page.url(), `${served.url}/invitation`, 'The token stays in the address')
  await stage.show('invitation')
  await page.getByLabel('I need an account').check()
  await fill({ Username: 'Grace', 'Email address': 'grace@example.com', Password: password })
  await says(/username/)
  await stage.show('invitation-refused')
  await fill({ Username: 'grace' })
  await says(/You are a member/)
  await stage.show('invitation-accepted')

  const client = createClient(served.reachable, () => undefined)
  const login = { body: { email: 'grace@example.com', password } }
  const { access_token: token } = (await client.expect('login', 200, login)).body
  const { secret } = (await client.expect('enrolSecondFactor', 201, { token, body: { password } })).body
  const confirmation = { token, body: { code: authenticator(secret)() } }
  const [code = ''] = (await client.expect('confirmSecondFactor', 200, confirmation)).body.recovery_codes
  await page.goto(await invite(served, manager))
  await page.getByText('invited you').waitFor()
  await fill({ 'Email address': 'grace@example.com', Password: 'forgotten' })
  await says(/password is wrong/)
  await fill({ Password: password })
  await says(/has a second factor/)
  await stage.show('invitation-with-a-second-factor')
  await fill({ 'Code from your authenticator': code })
  await says(/You are a member/)
  const projects = await client.expect('listProjects', 200, { token })
  assert.deepEqual(
    projects.body.items.map(({ role }) => role),
    ['editor', 'editor'],
  )

  await page.goto(first)
  await says(/already used/)
  assert.equal(await page.getByRole('button').isVisible(), false)
  await stage.show('invitation-used-twice')
}

const play = async (t: Teardown, browser: Browser, scene: Scene): Promise<void> => {
  console.log(scene.name)
  const served = await startService(t, scene)
  const { url, reachable } = served
  const account = await createClient(reachable, () => undefined).register('ada')
  const context = await browser.newContext({
    viewport: scene.viewport,
    isMobile: scene.isPhone,
    hasTouch: scene.isPhone,
  })
  context.setDefaultTimeout(patience)
  const clean = await watch(context, new URL(url).origin)
  const page = await context.newPage()
  const stage = new Stage(page, scene, url)

  await page.goto(`${url}/`)
  await stage.show('root')
  await page.getByRole('link', { name: /Swagger UI/ }).click()
  await page.locator('.opblock-tag').first().waitFor()
  await stage.show('docs')
  clean.check()
  await signIn(stage, account)
  const taskId = await createTask(stage)
  await findInList(stage, taskId)
  const content = Buffer.from(`${randomUUID()}\0\r\n\u00ff${'x'.repeat(100_000)}`)
  const attachmentId = await upload(stage, taskId, content)
  await download(stage, attachmentId, content)
  await openLinks(context, served, account, taskId)
  clean.check()
  clean.expectRefusal(`${url}/tasks`)
  await seeAProblem(stage)
  await stage.openAll()
  await stage.show('everything-open', page.locator('.opblock').last())
  clean.check()
  await staySignedIn(stage, clean)
  await authorize(stage, account.token)
  clean.check()
  await read(stage)
  clean.check()
  await page.goto(`${url}/problems/invalid_request`)
  await page.getByText('invalid_request').waitFor()
  await stage.show('problem-page')
  clean.check()
  clean.expectRefusal(`${url}/auth/password/reset`)
  await resetPassword(stage, served, account)
  clean.check()
  for (const path of ['auth/register', 'auth/login', 'invitations/lookup'])
    clean.expectRefusal(`${url}/${path}`)
  // The new password has ended the sessions of the account.
  const manager = await createClient(reachable, () => undefined).register('manager')
  await acceptInvitations(stage, served, manager)
  clean.check()
  await context.close()
}

const run = async (t: Teardown): Promise<void> => {
  const executablePath = findChromium()
  if (executablePath === null) {
    if (process.env.CI) throw new Error('In CI, this requires Chromium')
    console.log('skipped: Chromium is not installed')
    return
  }
  rmSync(screenshots, { recursive: true, force: true })
  await mkdir(screenshots, { recursive: true })
  const browser = await chromium.launch({ executablePath, args: browserFlags })
  t.teardown(() => browser.close())
  for (const scene of scenes) await play(t, browser, scene)
  console.log(`The pages work on ${scenes.map(({ name }) => name).join(' and ')}.`)
}

await runToEnd('browser', deadline, run)
