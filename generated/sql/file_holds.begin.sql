/* file_holds.begin */
with expired as (delete from leases where starts_with("leases"."name", 'file_hold/') and "leases"."expires_at" <= now())
insert into leases (name, holder, expires_at)
values ('file_hold/' || $1::uuid::text, $1::uuid, now() + interval '60 minutes');
