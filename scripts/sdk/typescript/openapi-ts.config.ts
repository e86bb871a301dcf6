/** One class with a method for each operation, which returns the data or throws. The path of the contract is an argument. */
export default {
  output: { path: 'src/generated', module: { extension: '.ts' } },
  plugins: [
    '@hey-api/typescript',
    { name: '@hey-api/client-fetch', throwOnError: true },
    {
      name: '@hey-api/sdk',
      operations: { strategy: 'single', containerName: 'Taskwright' },
      responseStyle: 'data',
    },
  ],
}
