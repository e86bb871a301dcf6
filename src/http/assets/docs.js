/**
 * Runs in the browser: Swagger UI. Executing an operation that returns tokens signs the page in.
 *
 * The tokens are in sessionStorage, so that they survive a reload and end with the tab. A duplicated tab has a copy, and a
 * refresh token works only once, so the tabs of a session exchange their tokens.
 */

const page = document.querySelector('#swagger-ui')
const status = document.querySelector('#signed-in')

const storageKey = status.dataset.key
const channel = new BroadcastChannel(storageKey)

const scheme = 'bearerAuth'
const addressOf = (path) => new URL(path, location).href

/** Milliseconds before its expiry at which an access token is refreshed, so that a request can still arrive in time. */
const margin = 30_000

/**
 * `id` is the same in all tabs of a session. A token from the Authorize dialog is only an `accessToken`.
 *
 * @type {{ id?: string, user?: string, accessToken: string, refreshToken?: string, expiresAt?: number } | null}
 */
let session = null

/** Null if the browser blocks site data. */
const storage = (() => {
  try {
    return sessionStorage
  } catch {
    return null
  }
})()

/** Shows who is signed in, and lets Swagger UI send the token. */
const show = () => {
  status.textContent = session ? `Signed in${session.user ? ` as ${session.user}` : ''}` : 'Not signed in'
  if (session) ui.preauthorizeApiKey(scheme, session.accessToken)
  else if (ui.authSelectors.authorized().has(scheme)) ui.authActions.logout([scheme])
}

const setSession = (next) => {
  session = next
  if (next) storage?.setItem(storageKey, JSON.stringify(next))
  else storage?.removeItem(storageKey)
  show()
}

const adoptTokens = (tokens, id) => {
  setSession({
    id,
    user: tokens.user.username,
    accessToken: tokens.access_token,
    refreshToken: tokens.refresh_token,
    expiresAt: Date.now() + tokens.expires_in * 1_000 - margin,
  })
  channel.postMessage(session)
}

const endSession = () => {
  if (session?.id) channel.postMessage({ id: session.id, hasEnded: true })
  setSession(null)
}

channel.addEventListener('message', ({ data }) => {
  if (!session?.id || data.id !== session.id) return
  if (data.hasEnded) setSession(null)
  else if (data.expiresAt > session.expiresAt) setSession(data)
  else if (data.expiresAt < session.expiresAt) channel.postMessage(session)
})

status.addEventListener('tokens', ({ detail }) => adoptTokens(detail, detail.refresh_token))

/** Two tabs can refresh at once: both get the same tokens. */
const refresh = async () => {
  const { id, refreshToken } = session
  const response = await fetch(addressOf('auth/refresh'), {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ refresh_token: refreshToken }),
  })
  if (session?.id !== id) return
  if (response.ok) adoptTokens(await response.json(), id)
  else if (response.status === 401) endSession()
}

/** Refreshes an expired access token before a request. */
const requestInterceptor = async (request) => {
  if (session?.expiresAt < Date.now() && request.headers.Authorization === `Bearer ${session.accessToken}`) {
    await refresh()
    if (session) request.headers.Authorization = `Bearer ${session.accessToken}`
  }
  return request
}

/** Signs the page in or out. */
const responseInterceptor = (response) => {
  const { ok, url, body } = response
  if (ok && body?.access_token && body.refresh_token) adoptTokens(body, body.refresh_token)
  if (ok && new URL(url).pathname === new URL(addressOf('auth/logout')).pathname) endSession()
  return response
}

/** Stores the token of the Authorize dialog for the tab only. Swagger UI would store it in localStorage. */
const keepDialogToken = () => ({
  statePlugins: {
    auth: {
      wrapActions: {
        persistAuthorizationIfNeeded:
          (_original, { authSelectors }) =>
          () => {
            const accessToken = authSelectors.authorized().getIn([scheme, 'value'])
            if (accessToken !== session?.accessToken) setSession(accessToken ? { accessToken } : null)
          },
      },
    },
  },
})

/** Without the example of an id in a path, which is that of nobody: Swagger UI would fill it in. */
const withoutForeignIds = ({ parameters, ...components }) => ({
  ...components,
  parameters: Object.fromEntries(
    Object.entries(parameters).map(([name, { example, ...parameter }]) => [
      name,
      parameter.in === 'path' && parameter.name.endsWith('_id')
        ? parameter
        : { ...parameter, ...(example !== undefined && { example }) },
    ]),
  ),
})

/** Adds to the introduction of the contract how this page signs in. */
const introduce = () => ({
  // The bar links to the contract; this would link to the page's own copy.
  components: { InfoUrl: () => null },
  statePlugins: {
    spec: {
      wrapActions: {
        updateJsonSpec: (original) => (contract) => {
          const { info, components } = contract
          original({
            ...contract,
            info: { ...info, description: `${info.description}\n${introduction}` },
            components: withoutForeignIds(components),
          })
        },
      },
    },
  },
})

/** Finds operations by tag, id, summary and path, and expands the tags if there are few. */
const findOperations = () => ({
  fn: {
    opsFilter: (tags, phrase) => {
      const includes = (text) => String(text).toLowerCase().includes(phrase.toLowerCase())
      const isFound = (found) =>
        includes(found.get('path')) ||
        includes(found.getIn(['operation', 'operationId'])) ||
        includes(found.getIn(['operation', 'summary']))
      return tags
        .map((tag, name) => (includes(name) ? tag : tag.update('operations', (all) => all.filter(isFound))))
        .filter((tag) => tag.get('operations').size > 0)
    },
  },
  statePlugins: {
    layout: {
      wrapActions: {
        updateFilter:
          (original, { specSelectors, layoutActions }) =>
          (phrase) => {
            const action = original(phrase)
            const found = phrase ? specSelectors.taggedOperations() : null
            if (found?.reduce((sum, tag) => sum + tag.get('operations').size, 0) <= 30)
              found.forEach((_, name) => layoutActions.show(['operations-tag', name], true))
            return action
          },
      },
    },
  },
})

/**
 * Renders all operations of the expanded tags, so that the browser's own search finds them: Swagger UI by itself removes those out of view,
 * and their inputs, when there are many. Says in words that the filter finds none.
 */
const renderAll = ({ React: { createElement } }) => {
  const operations =
    () =>
    ({ specSelectors, layoutSelectors, getComponent, ...others }) => {
      const tags = specSelectors.taggedOperations()
      if (tags.size === 0)
        return createElement(
          'p',
          { className: 'no-operation', role: 'status' },
          `No tag, operation, summary or path contains “${layoutSelectors.currentFilter()}”.`,
        )
      const OperationTag = getComponent('OperationTag')
      const OperationContainer = getComponent('OperationContainer', true)
      const rowOf = (tag) => (op) => {
        const [path, method, specPath] = ['path', 'method', 'specPath'].map((name) => op.get(name))
        return createElement(OperationContainer, {
          key: `${path} ${method}`,
          specPath,
          op,
          path,
          method,
          tag,
        })
      }
      const { oas3Selectors, layoutActions, getConfigs } = others
      const shared = { oas3Selectors, layoutSelectors, layoutActions, getConfigs, getComponent }
      const sectionOf = (tagObj, tag) =>
        createElement(
          OperationTag,
          { key: tag, tagObj, tag, specUrl: specSelectors.url(), ...shared },
          createElement(
            'div',
            { className: 'operation-tag-content' },
            tagObj.get('operations').map(rowOf(tag)).toArray(),
          ),
        )
      return createElement('div', null, tags.map(sectionOf).valueSeq().toArray())
    }
  return { wrapComponents: { operations } }
}

/** Renders what has changed. Swagger UI renders all open operations, many times with each click. */
const renderChanged = ({ React, getState }) => {
  /** Without `mapStateToProps`, a component is rendered with each change of any state. */
  const withState = (mapStateToProps) => (Component) => {
    const WithState = (props) => React.createElement(Component, props)
    WithState.prototype = { mapStateToProps }
    return WithState
  }
  const withoutState = withState(() => ({}))
  const withRequest = withState((state, { path, method, pathMethod = [path, method] }) => ({
    requestData: state.getIn(['oas3', 'requestData', ...pathMethod]),
    examples: state.getIn(['oas3', 'examples', ...pathMethod]),
  }))
  const operation = (Operation) => {
    const isSame = (before, after) =>
      before.inputs === after.inputs &&
      before.response === after.response &&
      before.operation.equals(after.operation)
    const Memoized = React.memo(Operation, isSame)
    return (props) => {
      const place = [props.operation.get('path'), props.operation.get('method')]
      const inputs = getState().getIn(['spec', 'meta', 'paths', ...place])
      return React.createElement(Memoized, { ...props, inputs })
    }
  }
  return {
    wrapComponents: {
      Markdown: withoutState,
      HighlightCode: withoutState,
      SyntaxHighlighter: withoutState,
      RequestBody: withoutState,
      modelExample: withState((state) => ({ layout: state.get('layout') })),
      parameters: withRequest,
      responses: withRequest,
      operation,
    },
  }
}

/** Resolves an operation when it is first opened. Swagger UI also converts those that were opened before. */
const resolveOnce = () => {
  const requested = new Set()
  const requestResolvedSubtree =
    (_original, { fn, specSelectors, specActions }) =>
    async (place) => {
      if (requested.has(String(place))) return
      requested.add(String(place))
      const [, path] = place
      const { paths, ...others } = specSelectors.specJS()
      const contract = { ...others, paths: { [path]: paths[path] } }
      const { spec } = await fn.resolveSubtree(contract, place, { baseDoc: specSelectors.url() })
      specActions.updateResolvedSubtree(place, spec)
    }
  return { statePlugins: { spec: { wrapActions: { requestResolvedSubtree } } } }
}

/** A response that does not end is never shown. */
const explainStreams = ({ React }) => ({
  wrapComponents: {
    execute: (Execute) => (props) => {
      const { operation } = props
      const isStream = operation.getIn(['responses', '200', 'content', 'text/event-stream']) !== undefined
      if (!isStream) return React.createElement(Execute, props)
      return React.createElement(
        'p',
        { className: 'no-stream' },
        'This page cannot show a stream. Open it with ',
        React.createElement('code', null, 'curl -N'),
        '.',
      )
    },
  },
})

const introduction = `**Sign in:** execute \`register\` or \`login\` (tag auth). This tab then sends the access token with every request, and
refreshes it, until you execute \`logout\` or close the tab. To use an API token, choose _Authorize_.`

const dark = matchMedia('(prefers-color-scheme: dark)')
const applyColorScheme = () => document.documentElement.classList.toggle('dark-mode', dark.matches)
dark.addEventListener('change', applyColorScheme)
applyColorScheme()

const ui = globalThis.SwaggerUIBundle({
  url: addressOf(page.dataset.contract),
  domNode: page,
  plugins: [
    keepDialogToken,
    introduce,
    findOperations,
    renderAll,
    renderChanged,
    resolveOnce,
    explainStreams,
  ],
  requestInterceptor,
  responseInterceptor,
  onComplete() {
    const filter = document.querySelector('.operation-filter-input')
    filter.placeholder = filter.ariaLabel = 'Filter by tag, operation, summary or path'
    session = JSON.parse(storage?.getItem(storageKey) ?? 'null')
    show()
    if (session?.id) channel.postMessage(session)
    status.dispatchEvent(new Event('ready'))
  },
  deepLinking: true,
  defaultModelsExpandDepth: 0,
  docExpansion: 'none',
  displayRequestDuration: true,
  filter: true,
  tryItOutEnabled: true,
})
