-- How many emails a tenant may send in a day of UTC, and how many it has sent on the day `emails_day`, counted in days
-- since 1970.
ALTER TABLE tickwork_tenants
    ADD COLUMN emails_per_day integer,
    ADD COLUMN emails_day integer NOT NULL DEFAULT 0,
    ADD COLUMN emails_sent integer NOT NULL DEFAULT 0;
