/** The values of these enums from the least on, as lists are sorted by them and filters compare them. */
export const statusRanks = ['todo', 'in_progress', 'done', 'cancelled'] as const
export const priorityRanks = ['none', 'low', 'medium', 'high', 'urgent'] as const
