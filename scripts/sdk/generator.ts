/** A command; a non-zero exit fails the generator. */
export interface Step {
  readonly title: string
  readonly command: string
  readonly args: readonly string[]
  /** Absolute; the generator's output folder when absent. */
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  /** A file that the step makes and that is kept between runs; the step is left out while it is there. */
  readonly makes?: string
}

/** Where a generator finds and puts things; all paths are absolute. */
export interface Paths {
  /** openapi.yaml. */
  readonly contract: string
  /** scripts/sdk/<generator>, where the program is. */
  readonly source: string
  /** An empty, ignored folder for generated code, builds and installed tools. */
  readonly output: string
  /** An ignored folder that is kept between runs, for tools that take long to install. */
  readonly cache: string
  /** An ignored folder that is kept between runs, for tools that several generators share. */
  readonly sharedCache: string
}

/** From the contract to a running program. */
export interface Plan {
  /** Generate the client and compile it with the language's own tools and warnings as errors. */
  readonly steps: readonly Step[]
  /**
   * Runs the scenario through the client. It gets TASKWRIGHT_URL, where a service runs whose first user has been
   * registered already; TASKWRIGHT_RECEIVER, the URL of a receiver of webhooks that accepts everything; and TASKWRIGHT_RECEIVERS, the
   * folder of the receivers in the guide.
   */
  readonly program: Step
}

/** How one community turns the contract into a client and uses it. */
export interface Generator {
  readonly name: string
  /** Commands that must be installed; if one is missing the generator is skipped, except in CI. */
  readonly tools: readonly string[]
  /** Takes minutes with empty caches, so it runs only by name or with --all. */
  readonly slow?: true
  /** Steps of the scenario that its program cannot take. */
  readonly leavesOut?: readonly string[]
  readonly plan: (paths: Paths) => Plan
}
