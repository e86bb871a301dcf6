ALTER TABLE "logout_tokens" ADD COLUMN "subject_hash" "bytea";--> statement-breakpoint
ALTER TABLE "logout_tokens" ADD COLUMN "sid_hash" "bytea";--> statement-breakpoint
ALTER TABLE "logout_tokens" ADD COLUMN "received_at" timestamp (3) with time zone DEFAULT now() NOT NULL;--> statement-breakpoint
ALTER TABLE "logout_tokens" ADD COLUMN "is_used" boolean DEFAULT true NOT NULL;--> statement-breakpoint
CREATE INDEX "logout_tokens_subject" ON "logout_tokens" USING btree ("subject_hash");--> statement-breakpoint
CREATE INDEX "logout_tokens_sid" ON "logout_tokens" USING btree ("sid_hash");--> statement-breakpoint
-- A column that is not read was null.
UPDATE "imports" SET "csv" = jsonb_set("csv", '{columns}', (
  SELECT jsonb_agg(CASE WHEN field = 'null' THEN '"skip"' ELSE field END ORDER BY place)
  FROM jsonb_array_elements("csv"->'columns') WITH ORDINALITY fields (field, place)
)) WHERE "csv"->'columns' @> '[null]';