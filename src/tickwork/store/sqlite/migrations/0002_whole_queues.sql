-- Order per key, limits, batches, subscriptions, firings, tallies, and dead letters to work with.

-- The earliest message of a key, by place, is the only one that is not held.
DROP INDEX tickwork_messages_key;
CREATE INDEX tickwork_messages_key ON tickwork_messages (queue_id, tenant, key, place) WHERE key IS NOT NULL;
CREATE INDEX tickwork_messages_held ON tickwork_messages (queue_id, tenant, state) WHERE state = 'held';
UPDATE tickwork_messages SET state = 'held'
WHERE key IS NOT NULL AND state = 'ready' AND EXISTS (
    SELECT 1 FROM tickwork_messages AS earlier
    WHERE earlier.queue_id = tickwork_messages.queue_id AND earlier.tenant = tickwork_messages.tenant
        AND earlier.key = tickwork_messages.key AND earlier.place < tickwork_messages.place
);

-- What waits behind others of its key expires like everything else that waits.
DROP INDEX tickwork_messages_expiring;
CREATE INDEX tickwork_messages_expiring ON tickwork_messages (expires_at)
    WHERE state <> 'claimed' AND expires_at IS NOT NULL;

-- How much a tenant has in hand, for caps and counts; what a holder has needs no more than its name.
CREATE INDEX tickwork_messages_claimed ON tickwork_messages (queue_id, tenant, state) WHERE state = 'claimed';
DROP INDEX tickwork_messages_holder;
CREATE INDEX tickwork_messages_holder ON tickwork_messages (holder) WHERE state = 'claimed';

-- Until when the rate of a queue is spent, and the bytes that wait in a queue with a cap: none are
-- counted in a queue without.
ALTER TABLE tickwork_queues ADD COLUMN spent_until INTEGER;
ALTER TABLE tickwork_queues ADD COLUMN backlog_bytes INTEGER;

-- Messages that are counted together. `total` is known when the last item is stored.
CREATE TABLE tickwork_batches (
    tenant TEXT NOT NULL,
    id BLOB NOT NULL CHECK (length(id) = 16),
    queue_id BLOB NOT NULL,
    completion_queue TEXT,
    stored INTEGER NOT NULL DEFAULT 0,
    total INTEGER,
    completed INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    filled_at INTEGER NOT NULL,
    completed_at INTEGER,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_batches_latest ON tickwork_batches (tenant, created_at, id);
CREATE INDEX tickwork_batches_filling ON tickwork_batches (filled_at) WHERE total IS NULL;
CREATE INDEX tickwork_batches_ended ON tickwork_batches (tenant, id)
    WHERE completed_at IS NULL AND total <= completed + failed;
CREATE INDEX tickwork_batches_completed ON tickwork_batches (completed_at) WHERE completed_at IS NOT NULL;

-- The items that have ended; the others are still messages.
CREATE TABLE tickwork_batch_items (
    tenant TEXT NOT NULL,
    batch_id BLOB NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('completed', 'failed')),
    id BLOB NOT NULL,
    reason TEXT,
    ended_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, batch_id, status, id)
) STRICT, WITHOUT ROWID;
DROP INDEX tickwork_messages_batch;
CREATE INDEX tickwork_messages_batch ON tickwork_messages (tenant, batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX tickwork_messages_batch_claimed ON tickwork_messages (tenant, batch_id, state)
    WHERE batch_id IS NOT NULL AND state = 'claimed';

-- A subscription without a tenant is the system's, and is for every tenant's messages.
CREATE TABLE tickwork_subscriptions (
    tenant TEXT REFERENCES tickwork_tenants,
    types TEXT NOT NULL,
    queue_id BLOB NOT NULL REFERENCES tickwork_queues ON DELETE CASCADE,
    created_at INTEGER NOT NULL DEFAULT (unixepoch() * 1000000)
) STRICT;
CREATE UNIQUE INDEX tickwork_subscriptions_once
    ON tickwork_subscriptions (coalesce(tenant, ''), types, queue_id);
CREATE INDEX tickwork_subscriptions_queue ON tickwork_subscriptions (queue_id);

-- What became of a slot: a row for each attempt.
CREATE TABLE tickwork_firings (
    tenant TEXT NOT NULL,
    id BLOB NOT NULL,
    schedule_id BLOB NOT NULL,
    slot INTEGER NOT NULL,
    run INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    status TEXT NOT NULL,
    reason TEXT,
    due_at INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    finished_at INTEGER NOT NULL,
    result_code INTEGER,
    excerpt TEXT,
    channels TEXT NOT NULL DEFAULT '[]',
    catch_up INTEGER NOT NULL DEFAULT 0,
    count INTEGER NOT NULL DEFAULT 1,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_firings_schedule ON tickwork_firings (schedule_id, finished_at, id);
CREATE INDEX tickwork_firings_age ON tickwork_firings (finished_at);

-- What passed through queues, by the minute. An empty type or source means none.
CREATE TABLE tickwork_tallies (
    queue_id BLOB NOT NULL,
    tenant TEXT NOT NULL,
    minute INTEGER NOT NULL,
    passing TEXT NOT NULL,
    type TEXT NOT NULL,
    source TEXT NOT NULL,
    messages INTEGER NOT NULL,
    PRIMARY KEY (queue_id, minute, tenant, passing, type, source)
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_tallies_age ON tickwork_tallies (minute);

-- Dead letters as a workbench: in groups, edited, replayed, discarded, pruned.
ALTER TABLE tickwork_dead_letters ADD COLUMN fingerprint TEXT NOT NULL DEFAULT '';
ALTER TABLE tickwork_dead_letters ADD COLUMN edited_at INTEGER;
ALTER TABLE tickwork_dead_letters ADD COLUMN replayed_as BLOB;
DROP INDEX tickwork_dead_letters_queue;
CREATE INDEX tickwork_dead_letters_own ON tickwork_dead_letters (queue_id, tenant, failed_at, id, resolution)
    WHERE resolution IS NULL;
CREATE INDEX tickwork_dead_letters_open ON tickwork_dead_letters (queue_id, failed_at, id)
    WHERE resolution IS NULL;
CREATE INDEX tickwork_dead_letters_id ON tickwork_dead_letters (id);
CREATE INDEX tickwork_dead_letters_age ON tickwork_dead_letters (failed_at);

CREATE INDEX tickwork_events_done_age ON tickwork_events_done (done_at);
