/** One command of a language's way from the contract to a running program; a non-zero exit fails it. */
export interface Step {
  readonly title: string
  readonly command: string
  readonly args: readonly string[]
  /** Absolute; the language's output folder when absent. */
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
}

/** Where a language finds and puts things; all paths are absolute. */
export interface Paths {
  /** openapi.yaml. */
  readonly contract: string
  /** scripts/sdk/<language>, where the program is. */
  readonly program: string
  /** An empty, ignored folder for generated code, builds and installed tools. */
  readonly output: string
  /** An ignored folder that is kept between runs, for tools that take long to install. */
  readonly cache: string
}

/**
 * How one community turns the contract into a client: generate it, compile it with the language's own tools and warnings
 * as errors, and run the scenario through it. The steps get TASKWRIGHT_URL, where a service runs whose first user has
 * been registered already.
 */
export interface Language {
  readonly name: string
  /** Commands that must be there; if one is missing the language is skipped, except in CI. */
  readonly tools: readonly string[]
  readonly steps: (paths: Paths) => readonly Step[]
}
