/** Runs in the browser before Scalar's script: the reference for reading. It requests nothing but the contract. */

// Otherwise the validation library in Scalar tries eval, which the page's policy reports before it refuses it.
globalThis.__zod_globalConfig = { jitless: true }

addEventListener('DOMContentLoaded', () => {
  const page = document.querySelector('#reference')
  globalThis.Scalar.createApiReference(page, {
    url: page.dataset.contract,
    // Samples need the whole address.
    servers: [{ url: new URL('.', location).href.replace(/\/$/, '') }],
    defaultHttpClient: { targetKey: 'shell', clientKey: 'curl' },
    defaultOpenFirstTag: false,
    orderSchemaPropertiesBy: 'preserve',
    documentDownloadType: 'none',
    hideTestRequestButton: true,
    showDeveloperTools: 'never',
    // What would request something from another host.
    agent: { disabled: true },
    hideClientButton: true,
    mcp: { disabled: true },
    telemetry: false,
    withDefaultFonts: false,
  })
})
