-- Endpoints, the events published to them, and their deliveries.

-- `settings` is JSON. The columns from `failures_in_row` to `notices` are the endpoint's health.
CREATE TABLE tickwork_endpoints (
    id BLOB PRIMARY KEY,
    tenant TEXT NOT NULL REFERENCES tickwork_tenants (id),
    name TEXT NOT NULL,
    settings TEXT NOT NULL,
    failures_in_row INTEGER NOT NULL DEFAULT 0,
    failing_since INTEGER,
    open_until INTEGER,
    openings INTEGER NOT NULL DEFAULT 0,
    notices INTEGER NOT NULL DEFAULT 0,
    disabled_at INTEGER,
    disabled_reason TEXT,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    UNIQUE (tenant, name)
) STRICT, WITHOUT ROWID;

-- Events with a delivery, so that it can be sent again. The body comes last: it may fill pages.
CREATE TABLE tickwork_published (
    place INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    id BLOB NOT NULL,
    published_at INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    hops INTEGER NOT NULL,
    type TEXT NOT NULL,
    source TEXT,
    correlation_id TEXT,
    causation_id TEXT,
    body BLOB NOT NULL,
    UNIQUE (tenant, id)
) STRICT;
CREATE INDEX tickwork_published_age ON tickwork_published (published_at);

-- One row per event and endpoint. It is waiting while its message exists; otherwise, if it is not delivered,
-- it is dead.
CREATE TABLE tickwork_deliveries (
    place INTEGER PRIMARY KEY,
    id BLOB NOT NULL UNIQUE,
    tenant TEXT NOT NULL,
    endpoint_id BLOB NOT NULL,
    published_id BLOB NOT NULL,
    message_id BLOB NOT NULL,
    event_id TEXT NOT NULL,
    type TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    published_at INTEGER NOT NULL,
    delivered_at INTEGER,
    last_attempt_at INTEGER,
    last_code INTEGER,
    last_error TEXT
) STRICT;
CREATE INDEX tickwork_deliveries_endpoint ON tickwork_deliveries (endpoint_id, published_at, id);
CREATE INDEX tickwork_deliveries_tenant ON tickwork_deliveries (tenant, published_at, id);
CREATE INDEX tickwork_deliveries_endpoint_open ON tickwork_deliveries (endpoint_id, published_at, id)
    WHERE delivered_at IS NULL;
CREATE INDEX tickwork_deliveries_tenant_open ON tickwork_deliveries (tenant, published_at, id)
    WHERE delivered_at IS NULL;

-- One row per claim under which a delivery was attempted.
CREATE TABLE tickwork_delivery_attempts (
    place INTEGER PRIMARY KEY,
    delivery_id BLOB NOT NULL,
    message_id BLOB NOT NULL,
    claim INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at INTEGER NOT NULL,
    took_seconds REAL NOT NULL,
    code INTEGER,
    kind TEXT,
    error TEXT,
    excerpt TEXT,
    UNIQUE (delivery_id, message_id, claim)
) STRICT;

-- A delivery that is sent again resolves its dead letter. The tenant is not a column of the index: a planner
-- without statistics would use it for lookups by id.
CREATE INDEX tickwork_dead_letters_message ON tickwork_dead_letters (message_id) WHERE resolution IS NULL;
