import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { blockedRoutine } from '../../src/db/access/blocked.ts'
import { viewerRoutines } from '../../src/db/access/access-relations.ts'
import { foldingRoutine } from '../../src/db/folded-characters.ts'

/**
 * Generates the functions and triggers of routines.sql that are derived from the table of folded characters, and from the access
 * rules and the fields of events.
 */

const path = fileURLToPath(new URL('../../src/db/routines.sql', import.meta.url))
/** In the order of the file. */
const parts = [foldingRoutine(), viewerRoutines() + blockedRoutine()]
const part = /(?<=-- Generated from .*\n)[^]*?(?=-- End of the generated part\.)/g
const routines = readFileSync(path, 'utf8')
if (routines.match(part)?.length !== parts.length)
  throw new Error(`routines.sql must have ${parts.length} generated parts`)
let index = 0
writeFileSync(
  path,
  routines.replaceAll(part, () => parts[index++] ?? ''),
)
