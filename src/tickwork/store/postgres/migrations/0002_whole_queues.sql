-- Order per key, limits, batches, subscriptions, firings, tallies, and dead letters to work with.

-- Where a message stands among those of its key; the earliest is the only one that is not held.
ALTER TABLE tickwork_messages ADD COLUMN place bigint;
DROP INDEX tickwork_messages_key;
CREATE INDEX tickwork_messages_key ON tickwork_messages (queue_id, tenant, key, place) WHERE key IS NOT NULL;

-- A key has a row while it has messages: whoever sends to it or frees it holds that row meanwhile.
CREATE TABLE tickwork_keys (
    tenant text COLLATE "C" NOT NULL,
    queue_id uuid NOT NULL,
    key text COLLATE "C" NOT NULL,
    last_place bigint NOT NULL,
    PRIMARY KEY (tenant, queue_id, key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000);

-- Messages from before stand in the order in which they were sent.
WITH numbered AS (
    SELECT tenant, id, row_number() OVER (PARTITION BY tenant, queue_id, key ORDER BY sent_at, id) AS place
    FROM tickwork_messages WHERE key IS NOT NULL
)
UPDATE tickwork_messages AS m
SET place = numbered.place,
    state = CASE WHEN numbered.place > 1 AND m.state = 'ready' THEN 'held' ELSE m.state END
FROM numbered WHERE m.tenant = numbered.tenant AND m.id = numbered.id;
INSERT INTO tickwork_keys (tenant, queue_id, key, last_place)
SELECT tenant, queue_id, key, max(place) FROM tickwork_messages
WHERE key IS NOT NULL GROUP BY tenant, queue_id, key;

-- What waits behind others of its key expires like everything else that waits.
DROP INDEX tickwork_messages_expiring;
CREATE INDEX tickwork_messages_expiring ON tickwork_messages (expires_at)
    WHERE state <> 'claimed' AND expires_at IS NOT NULL;

-- How much a tenant has in hand, for caps and counts.
CREATE INDEX tickwork_messages_claimed ON tickwork_messages (queue_id, tenant) WHERE state = 'claimed';

-- Until when the rate of a queue is spent; and whether its claims have to agree with each other on
-- what they may take, its sends on how much may wait.
ALTER TABLE tickwork_queues
    ADD COLUMN spent_until timestamptz,
    ADD COLUMN is_governed boolean NOT NULL DEFAULT false,
    ADD COLUMN is_capped boolean NOT NULL DEFAULT false;
CREATE INDEX tickwork_queues_capped ON tickwork_queues (id) WHERE is_capped;

-- The bytes that wait in a queue with a cap, in stripes that are summed.
CREATE TABLE tickwork_backlogs (
    queue_id uuid NOT NULL,
    stripe smallint NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (queue_id, stripe)
) WITH (fillfactor = 50);

-- Messages that are counted together. `total` is known when the last item is stored.
CREATE TABLE tickwork_batches (
    tenant text COLLATE "C" NOT NULL,
    id uuid NOT NULL,
    queue_id uuid NOT NULL,
    completion_queue text COLLATE "C",
    stored integer NOT NULL DEFAULT 0,
    total integer,
    created_at timestamptz NOT NULL,
    filled_at timestamptz NOT NULL,
    completed_at timestamptz,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX tickwork_batches_latest ON tickwork_batches (tenant, created_at, id);
CREATE INDEX tickwork_batches_open ON tickwork_batches (tenant, id) WHERE completed_at IS NULL;
CREATE INDEX tickwork_batches_completed ON tickwork_batches (completed_at) WHERE completed_at IS NOT NULL;

-- How many items of a batch have ended, in stripes that are summed: one row would be a queue itself.
CREATE TABLE tickwork_batch_counts (
    tenant text COLLATE "C" NOT NULL,
    batch_id uuid NOT NULL,
    stripe smallint NOT NULL,
    completed integer NOT NULL DEFAULT 0,
    failed integer NOT NULL DEFAULT 0,
    PRIMARY KEY (tenant, batch_id, stripe)
) WITH (fillfactor = 50);

-- The items that have ended; the others are still messages.
CREATE TABLE tickwork_batch_items (
    tenant text COLLATE "C" NOT NULL,
    batch_id uuid NOT NULL,
    status text COLLATE "C" NOT NULL CHECK (status IN ('completed', 'failed')),
    id uuid NOT NULL,
    reason text COLLATE "C",
    ended_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, batch_id, status, id)
);
DROP INDEX tickwork_messages_batch;
CREATE INDEX tickwork_messages_batch ON tickwork_messages (tenant, batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX tickwork_messages_batch_claimed ON tickwork_messages (tenant, batch_id)
    WHERE batch_id IS NOT NULL AND state = 'claimed';

-- A subscription without a tenant is the system's, and is for every tenant's messages.
CREATE TABLE tickwork_subscriptions (
    tenant text COLLATE "C" REFERENCES tickwork_tenants,
    types text COLLATE "C" NOT NULL,
    queue_id uuid NOT NULL REFERENCES tickwork_queues ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE NULLS NOT DISTINCT (tenant, types, queue_id)
);
CREATE INDEX tickwork_subscriptions_queue ON tickwork_subscriptions (queue_id);

-- What became of a slot: a row for each attempt.
CREATE TABLE tickwork_firings (
    tenant text COLLATE "C" NOT NULL,
    id uuid NOT NULL,
    schedule_id uuid NOT NULL,
    slot timestamptz NOT NULL,
    run integer NOT NULL,
    attempt smallint NOT NULL,
    status text COLLATE "C" NOT NULL,
    reason text COLLATE "C",
    due_at timestamptz NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    result_code integer,
    excerpt text,
    channels jsonb NOT NULL DEFAULT '[]',
    catch_up boolean NOT NULL DEFAULT false,
    count integer NOT NULL DEFAULT 1,
    PRIMARY KEY (tenant, id)
);
CREATE INDEX tickwork_firings_schedule ON tickwork_firings (tenant, schedule_id, finished_at, id);
CREATE INDEX tickwork_firings_age ON tickwork_firings (finished_at);

-- What passed through queues, by the minute. An empty type or source means none.
CREATE TABLE tickwork_tallies (
    queue_id uuid NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    minute timestamptz NOT NULL,
    passing text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    source text COLLATE "C" NOT NULL,
    messages bigint NOT NULL,
    PRIMARY KEY (queue_id, minute, tenant, passing, type, source)
) WITH (fillfactor = 70);
CREATE INDEX tickwork_tallies_age ON tickwork_tallies (minute);

-- Dead letters as a workbench: in groups, edited, replayed, discarded, pruned.
ALTER TABLE tickwork_dead_letters
    ADD COLUMN fingerprint text NOT NULL DEFAULT '',
    ADD COLUMN edited_at timestamptz,
    ADD COLUMN replayed_as uuid;
DROP INDEX tickwork_dead_letters_queue;
CREATE INDEX tickwork_dead_letters_own ON tickwork_dead_letters (queue_id, tenant, failed_at, id)
    WHERE resolution IS NULL;
CREATE INDEX tickwork_dead_letters_open ON tickwork_dead_letters (queue_id, failed_at, id)
    WHERE resolution IS NULL;
-- Their ids sort by age, so that the pruner needs no index of its own.
CREATE INDEX tickwork_dead_letters_id ON tickwork_dead_letters (id);

CREATE INDEX tickwork_events_done_age ON tickwork_events_done (done_at);
