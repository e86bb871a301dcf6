/* membership_tombstones.insert_hidden */
insert into membership_tombstones (project_id, user_id, left_in, created_at)
select id, null, pg_current_xact_id(), clock_timestamp() from unnest($1::uuid[]) hidden (id) order by id
on conflict on constraint membership_tombstones_once do update set left_in = excluded.left_in, created_at = excluded.created_at;
