/* webhooks.shorten */
update webhooks webhook set leased_until = case when webhook.leased_until > now() + $1::int * interval '1 millisecond' then now() + $1::int * interval '1 millisecond' else webhook.leased_until end, failing_since = case when webhook.failing_since > now() then now() else webhook.failing_since end, previous_secret_until = case when webhook.previous_secret_until > now() + interval '24 hours' then now() + interval '24 hours' else webhook.previous_secret_until end
where webhook.leased_until > now() + $1::int * interval '1 millisecond' or webhook.failing_since > now()
  or webhook.previous_secret_until > now() + interval '24 hours';
