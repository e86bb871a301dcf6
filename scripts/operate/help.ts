/** Prints how a command is used and exits with 0, if its arguments ask for that. */
export const helpIfAsked = (usage: string): void => {
  const args = process.argv.slice(2)
  if (args[0] !== 'help' && !args.includes('--help') && !args.includes('-h')) return
  console.log(usage)
  process.exit(0)
}
