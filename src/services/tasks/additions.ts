import type { Created } from '../../domain/shared/idempotency.ts'

/** A resource that was added to a task, and the version of the task, which stays. */
export interface AddedToTask extends Created {
  readonly taskVersion: number
}

/** The text that is stored as the response to adding something to a task. */
export const additionText = ({ json, taskVersion }: Pick<AddedToTask, 'json' | 'taskVersion'>): string =>
  JSON.stringify({ task_version: taskVersion, added: json })

/** The result of adding something to a task, whose response has that text. */
export const parseAddition = ({ json, ...created }: Created): AddedToTask => {
  const { added, task_version: taskVersion } = JSON.parse(json) as {
    readonly added: string
    readonly task_version: number
  }
  return { ...created, json: added, taskVersion }
}
