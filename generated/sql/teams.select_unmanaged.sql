/* teams.select_unmanaged */
select team.id::text from teams team
where team.id = any($1::uuid[]) and not exists (
  select from team_members member join users person on person.id = member.user_id and person.deleted_at is null
  where member.team_id = team.id and member.role = 'manager')
limit 1;
