ALTER TABLE "logout_tokens" ADD COLUMN "subject_hash" "bytea";--> statement-breakpoint
ALTER TABLE "logout_tokens" ADD COLUMN "sid_hash" "bytea";--> statement-breakpoint
ALTER TABLE "logout_tokens" ADD COLUMN "received_at" timestamp (3) with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
ALTER TABLE "logout_tokens" ADD COLUMN "is_used" boolean DEFAULT true NOT NULL;--> statement-breakpoint
CREATE INDEX "logout_tokens_subject" ON "logout_tokens" USING btree ("subject_hash");--> statement-breakpoint
CREATE INDEX "logout_tokens_sid" ON "logout_tokens" USING btree ("sid_hash");--> statement-breakpoint
ALTER TABLE "retention" ADD COLUMN "set_back_at" timestamp (3) with time zone;--> statement-breakpoint
ALTER TABLE "exports" ADD COLUMN "renewals" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "imports" ADD COLUMN "renewals" integer DEFAULT 0 NOT NULL;--> statement-breakpoint
ALTER TABLE "notifications" DROP CONSTRAINT "notifications_reason_known";--> statement-breakpoint
ALTER TABLE "notifications" ADD CONSTRAINT "notifications_reason_known" CHECK ("notifications"."reason" in ('mention', 'assignment', 'comment', 'completion', 'reminder', 'reminder_limit', 'export', 'import'));--> statement-breakpoint
-- A column that is not read was null.
UPDATE "imports" SET "csv" = jsonb_set("csv", '{columns}', (
  SELECT jsonb_agg(CASE WHEN field = 'null' THEN '"skip"' ELSE field END ORDER BY place)
  FROM jsonb_array_elements("csv"->'columns') WITH ORDINALITY fields (field, place)
)) WHERE "csv"->'columns' @> '[null]';--> statement-breakpoint
-- Copies of a database by version 0.2.0 and older numbered their events from 1 again. Numbers all events of such a database anew, in the
-- order in which readers see them, so that the next copy keeps it. The new numbers are larger than all others, so that none is taken.
DO $$ BEGIN
  IF (SELECT count(*) > count(DISTINCT ordinal) OR max(ordinal) > (SELECT last_value FROM events_ordinal_seq) FROM events) THEN
    LOCK TABLE events IN EXCLUSIVE MODE;
    WITH renumbered AS MATERIALIZED (
      SELECT changed_in, ordinal, max(ordinal) OVER () + row_number() OVER (ORDER BY changed_in, ordinal) AS number FROM events
    ), deliveries AS (
      UPDATE webhook_deliveries SET event_ordinal = number FROM renumbered
      WHERE (event_changed_in, event_ordinal) = (changed_in, ordinal)
    ), readers AS (
      UPDATE event_readers reader SET ordinal = coalesce((
        SELECT max(number) FROM renumbered
        WHERE renumbered.changed_in = reader.changed_in AND renumbered.ordinal <= reader.ordinal), 0)
    )
    UPDATE events SET ordinal = number FROM renumbered
    WHERE (events.changed_in, events.ordinal) = (renumbered.changed_in, renumbered.ordinal);
    PERFORM setval('events_ordinal_seq', (SELECT max(ordinal) FROM events));
  END IF;
END $$;