/* invitations.select_sent */
select "sender"."display_name" as sender_name,
  (
select count(*)::int from invitation_mails mail where "mail"."invited_by" = $1::uuid and "mail"."created_at" > now() - interval '1 day') as by_sender, (
select count(*)::int from invitation_mails mail where "mail"."mailbox" = $2::text and "mail"."created_at" > now() - interval '1 day') as to_mailbox
from users sender where "sender"."id" = $1::uuid;
