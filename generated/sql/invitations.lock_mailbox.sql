/* invitations.lock_mailbox */ select pg_advisory_xact_lock(hashtext('invitation_mails'), hashtext($1::text))::text as locked;
