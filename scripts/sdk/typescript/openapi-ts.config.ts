/** Generated imports end in .ts, so that Node runs the client without a build. The path of the contract is an argument. */
export default {
  output: { path: 'taskwright', module: { extension: '.ts' } },
}
