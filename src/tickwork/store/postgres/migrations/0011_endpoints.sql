-- Endpoints, the events published to them, and their deliveries.

-- `settings` is JSON. The columns from `failures_in_row` to `notices` are the endpoint's health.
CREATE TABLE tickwork_endpoints (
    id uuid PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL REFERENCES tickwork_tenants (id),
    name text COLLATE "C" NOT NULL,
    settings text NOT NULL,
    failures_in_row integer NOT NULL DEFAULT 0,
    failing_since timestamptz,
    open_until timestamptz,
    openings integer NOT NULL DEFAULT 0,
    notices integer NOT NULL DEFAULT 0,
    disabled_at timestamptz,
    disabled_reason text,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    UNIQUE (tenant, name)
);

-- Events with a delivery, so that it can be sent again.
CREATE TABLE tickwork_published (
    id uuid NOT NULL,
    published_at timestamptz NOT NULL,
    priority smallint NOT NULL,
    hops smallint NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    source text COLLATE "C",
    correlation_id text COLLATE "C",
    causation_id text COLLATE "C",
    body bytea NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX tickwork_published_age ON tickwork_published (published_at);

-- One row per event and endpoint. It is waiting while its message exists; otherwise, if it is not delivered,
-- it is dead.
CREATE TABLE tickwork_deliveries (
    id uuid PRIMARY KEY,
    endpoint_id uuid NOT NULL,
    published_id uuid NOT NULL,
    message_id uuid NOT NULL,
    published_at timestamptz NOT NULL,
    delivered_at timestamptz,
    last_attempt_at timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    last_code integer,
    tenant text COLLATE "C" NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    last_error text
);
CREATE INDEX tickwork_deliveries_endpoint ON tickwork_deliveries (endpoint_id, published_at, id);
CREATE INDEX tickwork_deliveries_tenant ON tickwork_deliveries (tenant, published_at, id);
CREATE INDEX tickwork_deliveries_endpoint_open ON tickwork_deliveries (endpoint_id, published_at, id)
    WHERE delivered_at IS NULL;
CREATE INDEX tickwork_deliveries_tenant_open ON tickwork_deliveries (tenant, published_at, id)
    WHERE delivered_at IS NULL;

-- One row per claim under which a delivery was attempted.
CREATE TABLE tickwork_delivery_attempts (
    delivery_id uuid NOT NULL,
    message_id uuid NOT NULL,
    claim bigint NOT NULL,
    at timestamptz NOT NULL,
    took_seconds float8 NOT NULL,
    number integer NOT NULL,
    code integer,
    kind text COLLATE "C",
    error text,
    excerpt text,
    PRIMARY KEY (delivery_id, message_id, claim)
);

-- A delivery that is sent again resolves its dead letter. The tenant is not a column of the index: a planner
-- without statistics would use it for lookups by id.
CREATE INDEX tickwork_dead_letters_message ON tickwork_dead_letters (message_id) WHERE resolution IS NULL;
