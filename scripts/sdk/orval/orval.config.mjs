/** The option `--input` overrides the path of the contract. Requests are sent with `send`, which adds the URL and the token. */
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
