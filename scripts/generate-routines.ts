import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { blockedRoutine } from '../src/db/access/blocked.ts'
import { viewerRoutines } from '../src/db/access/access-relations.ts'
import { eventRoutines } from '../src/db/event-values.ts'

/** Generates the functions and triggers of routines.sql that are derived from the access rules and the fields of events. */

const path = fileURLToPath(new URL('../src/db/routines.sql', import.meta.url))
const part = /(?<=-- Generated from .*\n)[^]*(?=-- End of the generated part\.)/
const routines = readFileSync(path, 'utf8')
if (!part.test(routines)) throw new Error('routines.sql has no generated part')
writeFileSync(
  path,
  routines.replace(part, () => viewerRoutines() + blockedRoutine() + eventRoutines()),
)
