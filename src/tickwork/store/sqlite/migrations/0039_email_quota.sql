-- How many emails a tenant may send in a day of UTC, and how many it has sent on the day `emails_day`, counted in days
-- since 1970.
ALTER TABLE tickwork_tenants ADD COLUMN emails_per_day INTEGER;
ALTER TABLE tickwork_tenants ADD COLUMN emails_day INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tickwork_tenants ADD COLUMN emails_sent INTEGER NOT NULL DEFAULT 0;
