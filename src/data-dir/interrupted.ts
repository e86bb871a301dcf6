import { join } from 'node:path'
import { isMissing } from './folder.ts'

/** What `npm run restore` writes until it is complete. */
export const restoringFolder = (dataDir: string): string => join(dataDir, 'restoring')

/** What `npm run carry-over` writes until it is complete. */
export const carryingOverFolder = (dataDir: string): string => join(dataDir, 'carrying-over')

/** A command has not moved everything to DATA_DIR. Whatever is created beside the rest could keep it from that. */
export class CommandInterrupted extends Error {
  override readonly name = 'CommandInterrupted'

  constructor(dataDir: string, command: string) {
    super(
      `DATA_DIR ${dataDir} is incomplete: "npm run ${command}" was interrupted, or is still running. Run the same command again, with the same file`,
    )
  }
}

/** @throws CommandInterrupted */
export const expectComplete = async (dataDir: string): Promise<void> => {
  if (!(await isMissing(restoringFolder(dataDir)))) throw new CommandInterrupted(dataDir, 'restore')
  if (!(await isMissing(carryingOverFolder(dataDir)))) throw new CommandInterrupted(dataDir, 'carry-over')
}
