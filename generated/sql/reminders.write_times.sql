/* reminders.write_times */
update reminders set remind_at = computed.remind_at, snoozed_until = computed.snoozed_until, fires_at = computed.fires_at,
  side_changes = "reminders"."side_changes" + $1::int, updated_at = greatest(clock_timestamp(), "reminders"."created_at")
from jsonb_to_recordset($2::jsonb -> 'rows') as computed (
  id uuid, remind_at timestamptz, snoozed_until timestamptz, fires_at timestamptz)
where "reminders"."id" = computed.id;
