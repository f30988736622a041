-- Schedules, their leaders, calendars, and what a slot's message carries.

-- What a tenant may have of schedules; until when its rate of making them is spent.
ALTER TABLE tickwork_tenants ADD COLUMN min_interval_seconds INTEGER;
ALTER TABLE tickwork_tenants ADD COLUMN schedules_max INTEGER;
ALTER TABLE tickwork_tenants ADD COLUMN schedules_per_second REAL;
ALTER TABLE tickwork_tenants ADD COLUMN schedules_spent_until INTEGER;

-- Of a slot: when it was due, for how long after that it is on time, and its schedule's terms.
ALTER TABLE tickwork_messages ADD COLUMN due_at INTEGER;
ALTER TABLE tickwork_messages ADD COLUMN grace_seconds INTEGER;
ALTER TABLE tickwork_messages ADD COLUMN terms TEXT;

-- `next_slot` is the first slot that is not planned, `look_at` when a leader has to look at it. What
-- planning needs comes before the metadata and the body, which may fill pages of their own.
CREATE TABLE tickwork_schedules (
    place INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    id BLOB NOT NULL CHECK (length(id) = 16),
    queue_id BLOB NOT NULL,
    bucket INTEGER NOT NULL CHECK (bucket BETWEEN 0 AND 4095),
    status TEXT NOT NULL CHECK (status IN ('active', 'paused', 'completed', 'parked', 'deleted')),
    version INTEGER NOT NULL DEFAULT 1,
    next_slot INTEGER,
    due_at INTEGER,
    look_at INTEGER,
    last_slot INTEGER,
    fired INTEGER NOT NULL DEFAULT 0,
    runs INTEGER NOT NULL DEFAULT 0,
    error_count INTEGER NOT NULL DEFAULT 0,
    last_status TEXT,
    last_error TEXT,
    grace_seconds INTEGER NOT NULL,
    expires_after_seconds REAL,
    priority INTEGER NOT NULL,
    overlap TEXT NOT NULL,
    on_dead TEXT NOT NULL,
    rule TEXT NOT NULL,
    calendar TEXT,
    terms TEXT,
    retry TEXT,
    queue TEXT NOT NULL,
    type TEXT NOT NULL,
    content_type TEXT NOT NULL,
    name TEXT,
    idempotency_key TEXT,
    fingerprint BLOB,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    metadata BLOB NOT NULL,
    body BLOB NOT NULL,
    UNIQUE (tenant, id)
) STRICT;

-- The only hot read: what a shard's leader has to look at. A shard is 64 buckets; other ranges
-- need another index like this one, and nothing else.
CREATE INDEX tickwork_schedules_look ON tickwork_schedules (bucket / 64, look_at, id)
    WHERE status = 'active' AND look_at IS NOT NULL;
CREATE UNIQUE INDEX tickwork_schedules_name ON tickwork_schedules (tenant, name)
    WHERE name IS NOT NULL AND status <> 'deleted';
CREATE UNIQUE INDEX tickwork_schedules_key ON tickwork_schedules (tenant, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX tickwork_schedules_status ON tickwork_schedules (tenant, status, id);
CREATE INDEX tickwork_schedules_calendar ON tickwork_schedules (tenant, calendar, id)
    WHERE calendar IS NOT NULL AND status <> 'deleted';
-- Deleted ones, for the pruner.
CREATE INDEX tickwork_schedules_deleted ON tickwork_schedules (changed_at) WHERE status = 'deleted';
-- Those that wait for the end of a run; there are few, and a sweep looks at them in turn.
CREATE INDEX tickwork_schedules_waiting ON tickwork_schedules (place)
    WHERE status = 'active' AND next_slot IS NULL;

-- Who leads which shard. The token rises with every hand-over.
CREATE TABLE tickwork_shards (
    shard INTEGER PRIMARY KEY CHECK (shard BETWEEN 0 AND 63),
    token INTEGER NOT NULL DEFAULT 0,
    node BLOB,
    taken_at INTEGER
) STRICT;
WITH RECURSIVE numbers (shard) AS (
    SELECT 0 UNION ALL SELECT shard + 1 FROM numbers WHERE shard < 63
)
INSERT INTO tickwork_shards (shard) SELECT shard FROM numbers;

CREATE TABLE tickwork_calendars (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    days TEXT NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- A run of slots that did not fire is one record, up to its last slot.
ALTER TABLE tickwork_firings ADD COLUMN last_slot INTEGER;
DROP INDEX tickwork_firings_schedule;
CREATE INDEX tickwork_firings_schedule ON tickwork_firings (tenant, schedule_id, finished_at, id);
CREATE INDEX tickwork_firings_slot ON tickwork_firings (tenant, schedule_id, slot);
CREATE INDEX tickwork_firings_runs ON tickwork_firings (tenant, schedule_id, last_slot)
    WHERE last_slot IS NOT NULL;
