-- The first schema: what it says of itself, tenants, queues, messages, dead letters, nodes.
-- Ids are the 16 bytes of a UUID, times are microseconds since 1970.
CREATE TABLE meta (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    schema_version INTEGER NOT NULL,
    cell TEXT NOT NULL DEFAULT 'main',
    epoch INTEGER NOT NULL DEFAULT 0 CHECK (epoch BETWEEN 0 AND 65535),
    tzdata TEXT
) STRICT;

CREATE TABLE tenants (
    id TEXT PRIMARY KEY NOT NULL,
    weight INTEGER NOT NULL DEFAULT 1 CHECK (weight > 0),
    suspended INTEGER NOT NULL DEFAULT 0 CHECK (suspended IN (0, 1)),
    created_at INTEGER NOT NULL DEFAULT (unixepoch() * 1000000)
) STRICT, WITHOUT ROWID;
INSERT INTO tenants (id) VALUES ('default');

-- A queue without a tenant is shared. Names are unique per tenant, and among the shared.
CREATE TABLE queues (
    id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    tenant TEXT REFERENCES tenants,
    name TEXT NOT NULL,
    settings TEXT NOT NULL,
    max_retries INTEGER NOT NULL,
    retention_seconds INTEGER NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    created_at INTEGER NOT NULL DEFAULT (unixepoch() * 1000000)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX queues_name ON queues (coalesce(tenant, ''), name);

-- One row per message that is not done, found by its place. The body comes last: it may fill
-- pages of its own, and whoever reads only the columns before it leaves those alone.
CREATE TABLE messages (
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
CREATE INDEX messages_ready ON messages (queue_id, tenant, priority DESC, visible_at, id, state)
    WHERE state = 'ready';
CREATE INDEX messages_holder ON messages (holder, queue_id, tenant, state) WHERE state = 'claimed';
CREATE INDEX messages_lease ON messages (lease_until)
    WHERE state = 'claimed' AND lease_until IS NOT NULL;
CREATE INDEX messages_suspect ON messages (queue_id, visible_at, id)
    WHERE state = 'ready' AND lost >= 2;
CREATE INDEX messages_expiring ON messages (expires_at)
    WHERE state = 'ready' AND expires_at IS NOT NULL;
CREATE INDEX messages_key ON messages (queue_id, tenant, key, id) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX messages_slot ON messages (tenant, schedule_id, slot, run)
    WHERE schedule_id IS NOT NULL;
CREATE INDEX messages_batch ON messages (tenant, batch_id) WHERE batch_id IS NOT NULL;

-- What will not be delivered again by itself.
CREATE TABLE dead_letters (
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
CREATE INDEX dead_letters_queue ON dead_letters (queue_id, tenant, failed_at, id);

-- Events that were done, so that a second one is known.
CREATE TABLE events_done (
    tenant TEXT NOT NULL,
    queue_id BLOB NOT NULL,
    event_id TEXT NOT NULL,
    done_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, queue_id, event_id)
) STRICT, WITHOUT ROWID;

-- A running process; what it holds lives as long as its heartbeat.
CREATE TABLE nodes (
    id BLOB PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    roles TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX nodes_expiry ON nodes (expires_at);
