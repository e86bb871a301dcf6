/* file_holds.select */ select exists (
select from leases where starts_with("leases"."name", 'file_hold/') and "leases"."expires_at" > now()
  and "leases"."expires_at" <= now() + interval '60 minutes' + interval '1 minute') as are_held;
