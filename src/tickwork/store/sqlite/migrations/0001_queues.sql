-- The first schema: what it says of itself, tenants, queues, messages, dead letters, nodes.
-- Ids are the 16 bytes of a UUID, times are microseconds since 1970.
CREATE TABLE tickwork_meta (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    schema_version INTEGER NOT NULL,
    cell TEXT NOT NULL DEFAULT 'main',
    epoch INTEGER NOT NULL DEFAULT 0 CHECK (epoch BETWEEN 0 AND 65535),
    tzdata TEXT
) STRICT;

CREATE TABLE tickwork_tenants (
    id TEXT PRIMARY KEY NOT NULL,
    weight INTEGER NOT NULL DEFAULT 1 CHECK (weight > 0),
    suspended INTEGER NOT NULL DEFAULT 0 CHECK (suspended IN (0, 1)),
    created_at INTEGER NOT NULL DEFAULT (unixepoch() * 1000000)
) STRICT, WITHOUT ROWID;
INSERT INTO tickwork_tenants (id) VALUES ('default');

-- A queue without a tenant is shared. Names are unique per tenant, and among the shared.
CREATE TABLE tickwork_queues (
    id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    tenant TEXT REFERENCES tickwork_tenants,
    name TEXT NOT NULL,
    settings TEXT NOT NULL,
    max_retries INTEGER NOT NULL,
    retention_seconds INTEGER NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    created_at INTEGER NOT NULL DEFAULT (unixepoch() * 1000000)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX tickwork_queues_name ON tickwork_queues (coalesce(tenant, ''), name);

-- One row per message that is not done, found by its place. The body comes last: it may fill
-- pages of its own, and whoever reads only the columns before it leaves those alone.
CREATE TABLE tickwork_messages (
    place INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    id BLOB NOT NULL CHECK (length(id) = 16),
    queue_id BLOB NOT NULL,
    state TEXT NOT NULL DEFAULT 'ready' CHECK (state IN ('ready', 'claimed', 'held')),
    priority INTEGER NOT NULL DEFAULT 4,
    visible_at INTEGER NOT NULL,
    sent_at INTEGER NOT NULL,
    expires_at INTEGER,
    claim INTEGER NOT NULL DEFAULT 0,
    holder BLOB,
    lease_until INTEGER,
    attempts INTEGER NOT NULL DEFAULT 0,
    lost INTEGER NOT NULL DEFAULT 0,
    hops INTEGER NOT NULL DEFAULT 0,
    key TEXT,
    event_id TEXT,
    type TEXT,
    source TEXT,
    correlation_id TEXT,
    causation_id TEXT,
    batch_id BLOB,
    schedule_id BLOB,
    slot INTEGER,
    run INTEGER NOT NULL DEFAULT 0,
    catch_up INTEGER NOT NULL DEFAULT 0,
    content_type TEXT NOT NULL DEFAULT 'json',
    format INTEGER NOT NULL DEFAULT 1,
    last_error TEXT,
    body BLOB NOT NULL,
    UNIQUE (tenant, id),
    CHECK ((state = 'claimed') = (holder IS NOT NULL))
) STRICT;

-- The state is in them too, though it is always the same: only then can SQLite look for lanes, and
-- count, without reading the messages themselves.
CREATE INDEX tickwork_messages_ready ON tickwork_messages (queue_id, tenant, priority DESC, visible_at, id, state)
    WHERE state = 'ready';
CREATE INDEX tickwork_messages_holder ON tickwork_messages (holder, queue_id, tenant, state) WHERE state = 'claimed';
CREATE INDEX tickwork_messages_lease ON tickwork_messages (lease_until)
    WHERE state = 'claimed' AND lease_until IS NOT NULL;
CREATE INDEX tickwork_messages_suspect ON tickwork_messages (queue_id, visible_at, id)
    WHERE state = 'ready' AND lost >= 2;
CREATE INDEX tickwork_messages_expiring ON tickwork_messages (expires_at)
    WHERE state = 'ready' AND expires_at IS NOT NULL;
CREATE INDEX tickwork_messages_key ON tickwork_messages (queue_id, tenant, key, id) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX tickwork_messages_slot ON tickwork_messages (tenant, schedule_id, slot, run)
    WHERE schedule_id IS NOT NULL;
CREATE INDEX tickwork_messages_batch ON tickwork_messages (tenant, batch_id) WHERE batch_id IS NOT NULL;

-- What will not be delivered again by itself.
CREATE TABLE tickwork_dead_letters (
    place INTEGER PRIMARY KEY,
    id BLOB NOT NULL,
    tenant TEXT NOT NULL,
    queue_id BLOB NOT NULL,
    message_id BLOB NOT NULL,
    reason TEXT NOT NULL,
    error TEXT,
    attempts INTEGER NOT NULL,
    failed_at INTEGER NOT NULL,
    resolution TEXT,
    resolved_at INTEGER,
    key TEXT,
    event_id TEXT,
    type TEXT,
    source TEXT,
    correlation_id TEXT,
    causation_id TEXT,
    hops INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    batch_id BLOB,
    schedule_id BLOB,
    slot INTEGER,
    run INTEGER NOT NULL,
    content_type TEXT NOT NULL,
    format INTEGER NOT NULL,
    sent_at INTEGER NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (tenant, id)
) STRICT;
CREATE INDEX tickwork_dead_letters_queue ON tickwork_dead_letters (queue_id, tenant, failed_at, id);

-- Events that were done, so that a second one is known.
CREATE TABLE tickwork_events_done (
    tenant TEXT NOT NULL,
    queue_id BLOB NOT NULL,
    event_id TEXT NOT NULL,
    done_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, queue_id, event_id)
) STRICT, WITHOUT ROWID;

-- A running process; what it holds lives as long as its heartbeat.
CREATE TABLE tickwork_nodes (
    id BLOB PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    roles TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_nodes_expiry ON tickwork_nodes (expires_at);
