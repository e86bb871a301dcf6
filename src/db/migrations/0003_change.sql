ALTER TABLE "retention" ADD COLUMN "set_back_at" timestamp (3) with time zone;--> statement-breakpoint
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
