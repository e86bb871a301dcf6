/** Runs in the browser before Scalar's script, and configures the API reference. The page requests only the contract. */

// Without it, the validation library in Scalar tries eval, which the page's policy blocks and reports on the console.
globalThis.__zod_globalConfig = { jitless: true }

addEventListener('DOMContentLoaded', () => {
  const page = document.querySelector('#reference')
  globalThis.Scalar.createApiReference(page, {
    url: page.dataset.contract,
    // Samples need an absolute URL.
    servers: [{ url: new URL('.', location).href.replace(/\/$/, '') }],
    defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
    defaultOpenFirstTag: false,
    orderSchemaPropertiesBy: 'preserve',
    documentDownloadType: 'none',
    hideTestRequestButton: true,
    showDeveloperTools: 'never',
    // Features that would send requests to other hosts.
    agent: { disabled: true },
    hideClientButton: true,
    mcp: { disabled: true },
    telemetry: false,
    withDefaultFonts: false,
  })
})

/** Enter opens the first result of the search if none is selected; Scalar opens only a selected one. */
addEventListener(
  'keydown',
  ({ key, target }) => {
    if (key !== 'Enter' || target.role !== 'combobox') return
    const results = [...document.querySelectorAll(`#${target.getAttribute('aria-controls')} [role=option]`)]
    if (!results.some((result) => result.ariaSelected === 'true')) results[0]?.click()
  },
  { capture: true },
)
