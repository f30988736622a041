-- Quotas of a tenant for its messages; until when its rate of sends is spent; how many schedules it has.

ALTER TABLE tickwork_tenants
    ADD COLUMN messages_per_second float8,
    ADD COLUMN messages_spent_until timestamptz,
    ADD COLUMN payload_bytes_max integer,
    ADD COLUMN backlog_max bigint,
    ADD COLUMN claimed_max integer;

-- How many schedules of a tenant may still fire. The sum is spread over stripes, as that of a backlog is, so
-- that planners and creates do not wait for each other.
CREATE TABLE tickwork_schedule_counts (
    tenant text COLLATE "C" NOT NULL,
    stripe smallint NOT NULL,
    schedules bigint NOT NULL,
    PRIMARY KEY (tenant, stripe)
);
INSERT INTO tickwork_schedule_counts (tenant, stripe, schedules)
SELECT tenant, 0, count(*) FROM tickwork_schedules
WHERE status IN ('active', 'paused', 'parked')
GROUP BY tenant;
