-- More quotas of a tenant: its requests, what its owners may schedule, and how many queues, endpoints, subscriptions and
-- sessions it may have.

ALTER TABLE tickwork_tenants
    ADD COLUMN requests_per_second float8,
    ADD COLUMN owner_min_interval_seconds integer,
    ADD COLUMN owner_schedules_max integer,
    ADD COLUMN queues_max integer,
    ADD COLUMN endpoints_max integer,
    ADD COLUMN subscriptions_max integer,
    ADD COLUMN sessions_max integer;

-- The schedules of an owner that may still fire, to count them. Those that are over are many more.
CREATE INDEX tickwork_schedules_owned ON tickwork_schedules (tenant, owner)
    WHERE owner IS NOT NULL AND status IN ('active', 'paused', 'parked');

-- A session has the tenant of its key, by which sessions are counted. One that a process of the version before starts
-- has none until it ends.
ALTER TABLE tickwork_sessions ADD COLUMN tenant text COLLATE "C" NOT NULL DEFAULT '';
UPDATE tickwork_sessions AS s SET tenant = k.tenant FROM tickwork_api_keys AS k WHERE k.id = s.key_id;
CREATE INDEX tickwork_sessions_tenant ON tickwork_sessions (tenant, key_id, expires_at);
