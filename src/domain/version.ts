import manifest from '../../package.json' with { type: 'json' }

/** The version of the service, which is that of its contract. */
export const { version } = manifest
