/** `--input` names another place for the contract. Requests go through `send`, which knows the service and the token. */
export default {
  taskwright: {
    input: '../taskwright/openapi.yaml',
    output: {
      target: 'taskwright.ts',
      client: 'fetch',
      headers: true,
      override: { mutator: { path: './http.ts', name: 'send', extension: '.ts' } },
    },
  },
}
