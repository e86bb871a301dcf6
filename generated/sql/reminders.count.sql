/* reminders.count */ select
(select count(*)::int from reminders counted join tasks reminded on reminded.id = counted.task_id
where counted.user_id = $1::uuid and reminded.status in ('todo', 'in_progress')) as open_reminders,
(select count(*)::int from reminders counted where counted.user_id = $1::uuid) as reminders;
