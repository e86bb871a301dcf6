/* tasks.restamp */
with ahead as (
  select id from tasks
  where deleted_at is null and changed_in >= pg_snapshot_xmax(pg_current_snapshot()) limit $1::int
), begun as (
  insert into change_history as history (epoch) select floor(random() * 2147483647)::int where exists (select from ahead)
  on conflict (singleton) do update set epoch = excluded.epoch, pruned_through = '0'
), forgotten as (
  delete from task_tombstones where exists (select from ahead)
), forgotten_memberships as (
  delete from membership_tombstones where exists (select from ahead)
), restamped as (
  update tasks set changed_in = '0' from ahead where "tasks"."id" = ahead.id returning "tasks"."id"
)
select count(*) as restamped from restamped;
