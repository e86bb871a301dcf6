/* projects.restamp */
with restamped as (
  update memberships set joined_in = '0' where "memberships"."joined_in" >= pg_snapshot_xmax(pg_current_snapshot())
)
update projects set visible_in = '0' where "projects"."visible_in" >= pg_snapshot_xmax(pg_current_snapshot());
