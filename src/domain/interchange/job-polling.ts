/** Seconds after which a client looks again at a job that has not ended. */
export const jobPollSeconds = 2
