import manifest from '../../../package.json' with { type: 'json' }

/** The version of the service and of its contract. */
export const { version } = manifest
