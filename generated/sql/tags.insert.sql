/* tags.insert */ with
    visible_projects as (
select project.id, project.archived_at is not null as is_archived, (project.deleted_at is null and (exists (
select from memberships membership
where membership.user_id = $1::uuid and membership.project_id = project.id and membership.role in ('editor', 'manager') offset 0) or (select $2::bool))) as may_edit
from projects project where project.id in ($3::uuid) and (project.deleted_at is null and (exists (
select from memberships membership
where membership.user_id = $1::uuid and membership.project_id = project.id and true offset 0) or (select $2::bool)))
order by project.id for key share),
    creation as (
      select case
        when exists (select from visible_projects where visible_projects.id = $3::uuid and not may_edit) then 'forbidden'
        when exists (select from visible_projects where visible_projects.id = $3::uuid and is_archived) then 'project_archived'
        when ($3::uuid is not null and not exists (select from visible_projects where visible_projects.id = $3::uuid and true)) then 'unknown_project'
        else 'done' end as outcome
    ),
    tag as (insert into tags (id, name, canonical_name, color, owner_id, project_id) select $4::uuid, $5::text, $6::text, $7::text, $1::uuid, $3::uuid from creation where outcome = 'done' returning *),
    created as (select id, (select row_to_json(fields)::text from (select tag.id as id, tag.name as name, tag.color as color, tag.owner_id as owner_id, tag.project_id as project_id, to_char(tag.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at) fields) as json from tag), kept as (
insert into idempotency_keys (principal_id, operation, key, fingerprint, resource_id, body) select $1::uuid, $8::text, $9::text, $10::text, id, json
from created where $9::text is not null and json is not null) select outcome, json from creation left join created on true;
