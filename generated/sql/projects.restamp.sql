/* projects.restamp */
with restamped as (
  update memberships set joined_in = '0'
  where joined_in >= pg_snapshot_xmax(pg_current_snapshot())
)
update projects set visible_in = '0'
where visible_in >= pg_snapshot_xmax(pg_current_snapshot());
