import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { blockedRoutine } from '../../src/db/access/blocked.ts'
import { viewerRoutines } from '../../src/db/access/access-relations.ts'
import { foldingRoutines } from '../../src/db/shared/folded-characters.ts'

/**
 * Generates the routines that are derived from the table of folded characters and the letters that Node.js knows, a file of its own,
 * and from the access rules, a part of routines.sql.
 */

const pathOf = (name: string): string => fileURLToPath(new URL(`../../src/db/${name}`, import.meta.url))

writeFileSync(pathOf('migrations/folding.sql'), foldingRoutines())

const part = /(?<=-- Generated from .*\n)[^]*?(?=-- End of the generated part\.)/
const routines = readFileSync(pathOf('routines.sql'), 'utf8')
if (!part.test(routines)) throw new Error('routines.sql has no generated part')
writeFileSync(
  pathOf('routines.sql'),
  routines.replace(part, () => viewerRoutines() + blockedRoutine()),
)
