CREATE TABLE "thumbnails" (
	"attachment_id" uuid NOT NULL,
	"width" integer NOT NULL,
	"size" integer NOT NULL,
	"sha256" text NOT NULL,
	"storage_key" text NOT NULL,
	"created_at" timestamp (3) with time zone DEFAULT now() NOT NULL,
	CONSTRAINT "thumbnails_attachment_id_width_pk" PRIMARY KEY("attachment_id","width")
);
--> statement-breakpoint
ALTER TABLE "thumbnails" ADD CONSTRAINT "thumbnails_attachment_id_attachments_id_fk" FOREIGN KEY ("attachment_id") REFERENCES "public"."attachments"("id") ON DELETE cascade ON UPDATE no action;--> statement-breakpoint
CREATE UNIQUE INDEX "thumbnails_storage_key_unique" ON "thumbnails" USING btree ("storage_key");