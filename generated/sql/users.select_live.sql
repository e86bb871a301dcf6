/* users.select_live */ select id::text from users where id = any((select $1::uuid[])::uuid[]) and deleted_at is null order by id for key share;
