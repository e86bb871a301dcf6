/** The values of these enums in ascending order, for sorting and for comparisons in filters. */
export const statusRanks = ['todo', 'in_progress', 'done', 'cancelled'] as const
export const priorityRanks = ['none', 'low', 'medium', 'high', 'urgent'] as const
