/** A command. The generator fails if the exit code is not zero. */
export interface Step {
  readonly title: string
  readonly command: string
  readonly args: readonly string[]
  /** An absolute path. The default is the output folder of the generator. */
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  /** A file that the step creates, kept between runs. The step is skipped if it exists. */
  readonly creates?: string
}

/** Absolute paths for a generator. */
export interface Paths {
  /** openapi.yaml. */
  readonly contract: string
  /** scripts/sdk/<generator>, which contains the program. */
  readonly source: string
  /** A folder for generated code, builds and installed tools, empty at the start. */
  readonly output: string
  /** A folder that is kept between runs, for tools that take long to install. */
  readonly cache: string
  /** A folder that is kept between runs, for tools that generators share. */
  readonly sharedCache: string
}

/** The steps from the contract to a program that runs. */
export interface Plan {
  /** Generate the client and compile it with the tools of the language, with warnings as errors. */
  readonly steps: readonly Step[]
  /**
   * Runs the scenario with the client. Variables: TASKWRIGHT_URL, the URL of a service that has an administrator; TASKWRIGHT_RECEIVER,
   * the URL of a receiver of webhooks that accepts everything; TASKWRIGHT_RECEIVERS, the folder of the receivers in the guide.
   */
  readonly program: Step
}

/** A client generator and a program that uses the generated client. */
export interface Generator {
  readonly name: string
  /** Required commands. If one is missing, the generator is skipped, except in CI. */
  readonly tools: readonly string[]
  /** Takes minutes with empty caches, so it runs only if named, or with --all. */
  readonly slow?: true
  /** Steps of the scenario that the client does not support. */
  readonly unsupported?: readonly string[]
  readonly plan: (paths: Paths) => Plan
}
