/** Generated imports end in .ts, so that Node runs the client as it is; the contract is named on the command line. */
export default {
  output: { path: 'taskwright', module: { extension: '.ts' } },
}
