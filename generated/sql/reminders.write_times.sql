/* reminders.write_times */
update reminders set remind_at = computed.remind_at, snoozed_until = computed.snoozed_until,
  fires_at = case when computed.remind_at > now() then computed.remind_at end, version = "reminders"."version" + 1, updated_at = greatest(clock_timestamp(), "reminders"."created_at")
from jsonb_to_recordset($1::jsonb -> 'rows') as computed (id uuid, remind_at timestamptz, snoozed_until timestamptz)
where "reminders"."id" = computed.id;
