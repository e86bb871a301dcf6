/* one_time_tokens.move_back */
update one_time_tokens token set created_at = moved.created_at, expires_at = moved.created_at + (token.expires_at - token.created_at)
from (
  select token.hash, now() - (row_number() over (partition by token.user_id order by token.created_at desc) - 1)
    * interval '1 millisecond' as created_at
  from one_time_tokens token where token.created_at > now()
) moved
where token.hash = moved.hash and token.created_at > now();
