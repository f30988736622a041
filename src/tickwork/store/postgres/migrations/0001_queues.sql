-- The first schema: what it says of itself, tenants, queues, messages, dead letters, nodes.
CREATE TABLE tickwork_meta (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    schema_version integer NOT NULL,
    cell text NOT NULL DEFAULT 'main',
    epoch integer NOT NULL DEFAULT 0 CHECK (epoch BETWEEN 0 AND 65535),
    tzdata text
);

CREATE TABLE tickwork_tenants (
    id text COLLATE "C" PRIMARY KEY,
    weight integer NOT NULL DEFAULT 1 CHECK (weight > 0),
    suspended boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO tickwork_tenants (id) VALUES ('default');

-- A queue without a tenant is shared. Names are unique per tenant, and among the shared.
CREATE TABLE tickwork_queues (
    id uuid PRIMARY KEY,
    tenant text COLLATE "C" REFERENCES tickwork_tenants,
    name text COLLATE "C" NOT NULL,
    settings jsonb NOT NULL,
    max_retries integer NOT NULL,
    retention_seconds integer NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE NULLS NOT DISTINCT (tenant, name)
);

-- One row per message that is not done. Fixed-width columns first: rows are many, and padded.
CREATE TABLE tickwork_messages (
    id uuid NOT NULL,
    queue_id uuid NOT NULL,
    holder uuid,
    batch_id uuid,
    schedule_id uuid,
    visible_at timestamptz NOT NULL,
    sent_at timestamptz NOT NULL,
    expires_at timestamptz,
    lease_until timestamptz,
    slot timestamptz,
    claim bigint NOT NULL DEFAULT 0,
    run integer NOT NULL DEFAULT 0,
    priority smallint NOT NULL DEFAULT 4,
    attempts smallint NOT NULL DEFAULT 0,
    lost smallint NOT NULL DEFAULT 0,
    hops smallint NOT NULL DEFAULT 0,
    format smallint NOT NULL DEFAULT 1,
    catch_up boolean NOT NULL DEFAULT false,
    state text COLLATE "C" NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'claimed', 'held')),
    content_type text COLLATE "C" NOT NULL DEFAULT 'json',
    tenant text COLLATE "C" NOT NULL,
    key text COLLATE "C",
    event_id text COLLATE "C",
    type text COLLATE "C",
    source text COLLATE "C",
    correlation_id text COLLATE "C",
    causation_id text COLLATE "C",
    last_error text,
    body bytea NOT NULL,
    PRIMARY KEY (tenant, id),
    CHECK ((state = 'claimed') = (holder IS NOT NULL))
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);

CREATE INDEX tickwork_messages_ready ON tickwork_messages (queue_id, tenant, priority DESC, visible_at, id)
    WHERE state = 'ready';
CREATE INDEX tickwork_messages_holder ON tickwork_messages (holder) WHERE state = 'claimed';
CREATE INDEX tickwork_messages_lease ON tickwork_messages (lease_until)
    WHERE state = 'claimed' AND lease_until IS NOT NULL;
CREATE INDEX tickwork_messages_suspect ON tickwork_messages (queue_id, tenant, visible_at, id)
    WHERE state = 'ready' AND lost >= 2;
CREATE INDEX tickwork_messages_expiring ON tickwork_messages (expires_at)
    WHERE state = 'ready' AND expires_at IS NOT NULL;
CREATE INDEX tickwork_messages_key ON tickwork_messages (queue_id, tenant, key, id) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX tickwork_messages_slot ON tickwork_messages (tenant, schedule_id, slot, run)
    WHERE schedule_id IS NOT NULL;
CREATE INDEX tickwork_messages_batch ON tickwork_messages (tenant, batch_id) WHERE batch_id IS NOT NULL;

-- What will not be delivered again by itself.
CREATE TABLE tickwork_dead_letters (
    id uuid NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    queue_id uuid NOT NULL,
    message_id uuid NOT NULL,
    reason text COLLATE "C" NOT NULL,
    error text,
    attempts smallint NOT NULL,
    failed_at timestamptz NOT NULL,
    resolution text COLLATE "C",
    resolved_at timestamptz,
    key text COLLATE "C",
    event_id text COLLATE "C",
    type text COLLATE "C",
    source text COLLATE "C",
    correlation_id text COLLATE "C",
    causation_id text COLLATE "C",
    hops smallint NOT NULL,
    priority smallint NOT NULL,
    batch_id uuid,
    schedule_id uuid,
    slot timestamptz,
    run integer NOT NULL,
    content_type text COLLATE "C" NOT NULL,
    format smallint NOT NULL,
    sent_at timestamptz NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX tickwork_dead_letters_queue ON tickwork_dead_letters (queue_id, tenant, failed_at, id);

-- Events that were done, so that a second one is known.
CREATE TABLE tickwork_events_done (
    tenant text COLLATE "C" NOT NULL,
    queue_id uuid NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    done_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, queue_id, event_id)
);

-- One row per accepted group of sends, so that a repeat after a lost answer is known,
-- also when its messages are done and gone.
CREATE TABLE tickwork_receipts (
    id uuid PRIMARY KEY,
    accepted_at timestamptz NOT NULL
);

-- A running process; what it holds lives as long as its heartbeat.
CREATE TABLE tickwork_nodes (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    roles text[] NOT NULL,
    started_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX tickwork_nodes_expiry ON tickwork_nodes (expires_at);
