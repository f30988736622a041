-- Named limits, which queues and endpoints share. `spent_until` is the time until which the rate is spent.

CREATE TABLE tickwork_limits (
    tenant text COLLATE "C" REFERENCES tickwork_tenants (id),
    name text COLLATE "C" NOT NULL,
    rate float8,
    period_seconds float8 NOT NULL,
    concurrency integer,
    spent_until timestamptz
);
CREATE UNIQUE INDEX tickwork_limits_name ON tickwork_limits (coalesce(tenant, ''), name);

-- Few queues push, or have a named limit.
CREATE INDEX tickwork_queues_push ON tickwork_queues ((settings ->> 'push_to'))
    WHERE settings ->> 'push_to' IS NOT NULL;
CREATE INDEX tickwork_queues_limit ON tickwork_queues ((settings ->> 'limit'))
    WHERE settings ->> 'limit' IS NOT NULL;
