/* credential_changes.notify */ select pg_notify('taskwright_credential_changes', $1::text);
