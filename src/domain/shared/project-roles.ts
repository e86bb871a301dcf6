/** The roles of a project's members. Each includes those before it. */
export const projectRoles = ['viewer', 'commenter', 'editor', 'manager'] as const

export type ProjectRole = (typeof projectRoles)[number]

/** Whether a role includes more than another one; null is no role. */
export const isHigherRole = (role: ProjectRole, other: ProjectRole | null): boolean =>
  other === null || projectRoles.indexOf(role) > projectRoles.indexOf(other)
