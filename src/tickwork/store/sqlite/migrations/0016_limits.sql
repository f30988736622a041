-- Named limits, which queues and endpoints share. `spent_until` is the time until which the rate is spent.

CREATE TABLE tickwork_limits (
    tenant TEXT REFERENCES tickwork_tenants (id),
    name TEXT NOT NULL,
    rate REAL,
    period_seconds REAL NOT NULL,
    concurrency INTEGER,
    spent_until INTEGER
) STRICT;
CREATE UNIQUE INDEX tickwork_limits_name ON tickwork_limits (coalesce(tenant, ''), name);

-- Few queues push, or have a named limit.
CREATE INDEX tickwork_queues_push ON tickwork_queues (settings ->> '$.push_to')
    WHERE settings ->> '$.push_to' IS NOT NULL;
CREATE INDEX tickwork_queues_limit ON tickwork_queues (settings ->> '$.limit')
    WHERE settings ->> '$.limit' IS NOT NULL;
