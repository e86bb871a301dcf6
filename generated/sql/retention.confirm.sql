/* retention.confirm */ update retention set seen_at = now(), unconfirmed = '0', skipped_from = null;
