/* imports.look */ select from imports row where (("row"."status" in ('reading', 'running', 'undoing', 'discarding')) and coalesce("row"."leased_until" <= now(), true)) limit 1;
