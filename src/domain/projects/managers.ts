/** What is managed by at least one of its members. */
type Managed = 'project' | 'team'

/** A change would leave a project or a team without a manager. */
export class LastManager extends Error {
  override readonly name = 'LastManager'
  readonly of: Managed
  constructor(of: Managed) {
    super(`The ${of} would have no manager`)
    this.of = of
  }
}
