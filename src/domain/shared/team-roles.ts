/** The roles of a team's members. A manager is also a member. */
export type TeamRole = 'member' | 'manager'
