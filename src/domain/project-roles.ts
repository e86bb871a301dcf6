/** The roles of a project's members. Each includes those before it. */
export const projectRoles = ['viewer', 'commenter', 'editor', 'manager'] as const

export type ProjectRole = (typeof projectRoles)[number]
