/** A request that a handler sends to another operation on behalf of its caller. */
export interface DispatchedRequest {
  readonly method: string
  /** Includes the query. */
  readonly path: string
  /** In addition to the caller's Authorization and User-Agent. */
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string | undefined
}

export interface DispatchedResponse {
  readonly status: number
  /** Empty if the response has none. */
  readonly body: string
}

/** Runs another operation as if the caller had sent the request. Resolves for error responses too. */
export type Dispatch = (request: DispatchedRequest) => Promise<DispatchedResponse>
