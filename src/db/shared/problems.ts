import { type MapError, type Problem, problems } from '../../problems/problems.ts'
import {
  CallerGone,
  ConstraintViolation,
  DatabaseUnavailable,
  ListTooExpensive,
  StatementCancelled,
  TooManyConflicts,
  TooManyStatements,
} from '../engine/errors.ts'

/** The problem for each constraint of the schema that a request can violate. */
const constraintProblems: Readonly<Record<string, () => Problem>> = {
  users_username_unique: problems.usernameTaken,
  users_email_unique: problems.emailTaken,
  // The account of a code was deleted, or its identity unlinked or linked by another request, meanwhile.
  identities_subject_unique: problems.identityOfAnotherAccount,
  identities_user_once: problems.providerLinked,
  tags_owner_name_unique: problems.tagExists,
  tags_project_name_unique: problems.projectTagExists,
  tasks_project_id_projects_id_fk: () => problems.unknownReference('/project_id', 'project'),
  tags_project_id_projects_id_fk: () => problems.unknownReference('/project_id', 'project'),
  webhooks_project_id_projects_id_fk: () => problems.unknownReference('/project_id', 'project'),
  tasks_owner_id_users_id_fk: () => problems.unknownReference('/owner_id', 'user'),
  tasks_assignee_id_users_id_fk: () => problems.unknownReference('/assignee_id', 'user'),
  tasks_project_id_section_id_sections_project_id_id_fk: () =>
    problems.unknownReference('/section_id', 'section'),
  // The following are violated only if a resource of the request is deleted while the request runs.
  task_tags_task_id_tasks_id_fk: problems.notFound,
  task_tags_tag_id_tags_id_fk: problems.notFound,
  attachments_task_id_tasks_id_fk: problems.notFound,
  uploads_task_id_tasks_id_fk: problems.notFound,
  uploads_user_id_users_id_fk: problems.invalidToken,
  attachments_uploaded_by_users_id_fk: problems.invalidToken,
  sections_project_id_projects_id_fk: problems.notFound,
  thumbnails_attachment_id_attachments_id_fk: problems.notFound,
  tags_owner_id_users_id_fk: problems.invalidToken,
  invitations_project_id_projects_id_fk: problems.notFound,
  invitations_invited_by_users_id_fk: problems.invalidToken,
  project_members_user_id_users_id_fk: problems.invalidToken,
  comments_author_id_users_id_fk: problems.invalidToken,
  idempotency_keys_principal_id_users_id_fk: problems.invalidToken,
  webhooks_owner_id_users_id_fk: problems.invalidToken,
  one_time_tokens_user_id_users_id_fk: problems.wrongPassword,
}

/** Maps the errors of the database. */
export const databaseProblem: MapError = (error) => {
  if (error instanceof ConstraintViolation) return constraintProblems[error.constraint]?.() ?? null
  if (error instanceof CallerGone) return problems.invalidToken()
  if (error instanceof TooManyStatements) return problems.tooManyStatements(error.retryAfterSeconds)
  if (error instanceof TooManyConflicts) return problems.writeConflict(error)
  if (error instanceof ListTooExpensive) return problems.listTooExpensive()
  if (error instanceof StatementCancelled)
    return problems.serviceUnavailable(
      'The database took too long. Nothing was changed. Retry in a few seconds.',
      error,
    )
  if (error instanceof DatabaseUnavailable)
    return problems.serviceUnavailable('The database is unavailable. Retry in a few seconds.', error)
  return null
}
