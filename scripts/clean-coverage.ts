import { rmSync } from 'node:fs'
import { coverageFolder } from '../test/fixture/contract-check.ts'

rmSync(coverageFolder, { recursive: true, force: true })
