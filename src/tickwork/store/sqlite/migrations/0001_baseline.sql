-- The whole schema: every table, its indexes, its triggers and the rows it starts with.
--
-- The tables follow the way of one slot: whose it is, its schedule, the queue and the message it becomes, the node that
-- claims it, what handles it (deliveries, entities, workflows), and what is recorded of it. Then who may ask.
--
-- Ids are the 16 bytes of a UUID, times are microseconds since 1970, booleans are 0 and 1.


-- # The database and its tenants.

-- One row: what the database says of itself. `cell` is its name; `epoch` counts how often it was replaced by a copy.
CREATE TABLE tickwork_meta (
    only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
    schema_version INTEGER NOT NULL,
    cell TEXT NOT NULL DEFAULT 'main',
    epoch INTEGER NOT NULL DEFAULT 0 CHECK (epoch BETWEEN 0 AND 65535),
    tzdata TEXT,
    -- The sum of the known jumps of the clock, in microseconds. Of the last one: the time before it, and the first one
    -- after it.
    clock INTEGER NOT NULL DEFAULT 0,
    clock_set_from INTEGER,
    clock_set_to INTEGER,
    -- Since when everything is paused: no message of any tenant is claimed. NULL: it is not.
    paused_at INTEGER,
    -- Seconds of the fire window that every schedule has at least, unless it is exact. 0: its own window only.
    widened_seconds INTEGER NOT NULL DEFAULT 0
) STRICT;

-- A tenant with its quotas; a quota that is NULL does not limit. `…_spent_until` is the time until which a rate is
-- spent.
CREATE TABLE tickwork_tenants (
    id TEXT PRIMARY KEY NOT NULL,
    weight INTEGER NOT NULL DEFAULT 1 CHECK (weight > 0),
    suspended INTEGER NOT NULL DEFAULT 0 CHECK (suspended IN (0, 1)),
    created_at INTEGER NOT NULL DEFAULT (unixepoch() * 1000000),
    min_interval_seconds INTEGER,
    schedules_max INTEGER,
    schedules_per_second REAL,
    schedules_spent_until INTEGER,
    -- What owners may target, as JSON.
    owner_targets TEXT NOT NULL DEFAULT '[]',
    messages_per_second REAL,
    messages_spent_until INTEGER,
    payload_bytes_max INTEGER,
    backlog_max INTEGER,
    claimed_max INTEGER,
    -- How many schedules of the tenant may still fire; the triggers on schedules count them.
    schedules INTEGER NOT NULL DEFAULT 0,
    -- Emails in a day of UTC, and how many were sent on the day `emails_day`, counted in days since 1970.
    emails_per_day INTEGER,
    emails_day INTEGER NOT NULL DEFAULT 0,
    emails_sent INTEGER NOT NULL DEFAULT 0,
    requests_per_second REAL,
    -- What each owner may schedule.
    owner_min_interval_seconds INTEGER,
    owner_schedules_max INTEGER,
    queues_max INTEGER,
    endpoints_max INTEGER,
    subscriptions_max INTEGER,
    sessions_max INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO tickwork_tenants (id) VALUES ('default');


-- # Schedules, and who plans them.

-- `next_slot` is the first slot that is not planned, `look_at` when a leader has to look at it. What planning reads
-- most comes before the metadata and the body, which may fill pages of their own.
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
    -- Microseconds by which an interval counts from another instant than its rule says.
    shift INTEGER NOT NULL DEFAULT 0,
    -- The user of the tenant to whom it belongs, if it belongs to one.
    owner TEXT,
    UNIQUE (tenant, id)
) STRICT;
-- The only hot read: what a shard's leader has to look at. A shard is 64 buckets; each other number of shards has an
-- index like this one.
CREATE INDEX tickwork_schedules_look ON tickwork_schedules (bucket / 64, look_at, id)
    WHERE status = 'active' AND look_at IS NOT NULL;
-- Lists by status.
CREATE INDEX tickwork_schedules_status ON tickwork_schedules (tenant, status, id);
-- What a change of a calendar concerns.
CREATE INDEX tickwork_schedules_calendar ON tickwork_schedules (tenant, calendar, id)
    WHERE calendar IS NOT NULL AND status <> 'deleted';
-- For the pruner.
CREATE INDEX tickwork_schedules_deleted ON tickwork_schedules (changed_at) WHERE status = 'deleted';
-- Those that wait for the end of a run; there are few, and a sweep looks at them in turn.
CREATE INDEX tickwork_schedules_waiting ON tickwork_schedules (place)
    WHERE status = 'active' AND next_slot IS NULL;
CREATE INDEX tickwork_schedules_owner ON tickwork_schedules (tenant, owner, id)
    WHERE owner IS NOT NULL;
-- Names and idempotency keys are unique per owner.
CREATE UNIQUE INDEX tickwork_schedules_name ON tickwork_schedules (tenant, name, coalesce(owner, ''))
    WHERE name IS NOT NULL AND status <> 'deleted';
CREATE UNIQUE INDEX tickwork_schedules_key
    ON tickwork_schedules (tenant, idempotency_key, coalesce(owner, ''))
    WHERE idempotency_key IS NOT NULL;
-- The next slots of a tenant, soonest first: the list of upcoming slots reads as many as it shows.
CREATE INDEX tickwork_schedules_due ON tickwork_schedules (tenant, due_at, id)
    WHERE status = 'active' AND due_at IS NOT NULL;
-- What a look at the health reads: schedules that are parked or whose last slot failed.
CREATE INDEX tickwork_schedules_trouble ON tickwork_schedules (tenant, id)
    WHERE status = 'parked' OR (status = 'active' AND last_status IN ('failed', 'dead', 'expired'));
-- The schedules of an owner that may still fire, to count them. Those that are over are many more.
CREATE INDEX tickwork_schedules_owned ON tickwork_schedules (tenant, owner)
    WHERE owner IS NOT NULL AND status IN ('active', 'paused', 'parked');
CREATE TRIGGER tickwork_schedules_created AFTER INSERT ON tickwork_schedules
WHEN new.status IN ('active', 'paused', 'parked')
BEGIN
    UPDATE tickwork_tenants SET schedules = schedules + 1 WHERE id = new.tenant;
END;
CREATE TRIGGER tickwork_schedules_ended AFTER UPDATE OF status ON tickwork_schedules
WHEN (new.status IN ('active', 'paused', 'parked')) <> (old.status IN ('active', 'paused', 'parked'))
BEGIN
    UPDATE tickwork_tenants
    SET schedules = schedules + iif(new.status IN ('active', 'paused', 'parked'), 1, -1)
    WHERE id = new.tenant;
END;

-- Days off, by name.
CREATE TABLE tickwork_calendars (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    days TEXT NOT NULL,
    version INTEGER NOT NULL DEFAULT 1,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;

-- Who leads which shard; their number is a power of two up to 256. The token rises with every hand-over.
CREATE TABLE tickwork_shards (
    shard INTEGER PRIMARY KEY CHECK (shard BETWEEN 0 AND 255),
    token INTEGER NOT NULL DEFAULT 0,
    node BLOB,
    taken_at INTEGER,
    -- The oldest version of the zone data that the shard's stored times may be from. NULL: it is not known.
    tzdata TEXT,
    -- The sum of the jumps of the clock that the shard's intervals follow, in microseconds.
    clock INTEGER NOT NULL DEFAULT 0,
    -- Since when the shard is free. A node that takes one beyond its share keeps it until `kept_until`.
    freed_at INTEGER,
    kept_until INTEGER
) STRICT;
WITH RECURSIVE numbers (shard) AS (
    SELECT 0 UNION ALL SELECT shard + 1 FROM numbers WHERE shard < 63
)
INSERT INTO tickwork_shards (shard) SELECT shard FROM numbers;


-- # Queues, and what limits and feeds them.

-- A queue without a tenant is shared. Names are unique per tenant, and among the shared.
CREATE TABLE tickwork_queues (
    id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    tenant TEXT REFERENCES tickwork_tenants,
    name TEXT NOT NULL,
    settings TEXT NOT NULL,
    max_retries INTEGER NOT NULL,
    retention_seconds INTEGER NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
    created_at INTEGER NOT NULL DEFAULT (unixepoch() * 1000000),
    -- Until when its rate is spent.
    spent_until INTEGER,
    -- The bytes that wait in a queue with a cap. NULL without a cap: none are counted.
    backlog_bytes INTEGER,
    -- When a consumer last asked for messages, to about ten seconds.
    pulled_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX tickwork_queues_name ON tickwork_queues (coalesce(tenant, ''), name);
-- Few queues push, or have a named limit.
CREATE INDEX tickwork_queues_push ON tickwork_queues (settings ->> '$.push_to')
    WHERE settings ->> '$.push_to' IS NOT NULL;
CREATE INDEX tickwork_queues_limit ON tickwork_queues (settings ->> '$.limit')
    WHERE settings ->> '$.limit' IS NOT NULL;

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

-- Deliveries to endpoints that use a named limit with a concurrency. A use ends with its claim; the next one who takes
-- from the limit deletes it.
CREATE TABLE tickwork_limit_uses (
    tenant TEXT NOT NULL,
    name TEXT NOT NULL,
    message_id BLOB NOT NULL,
    claim INTEGER NOT NULL,
    PRIMARY KEY (tenant, name, message_id)
) STRICT, WITHOUT ROWID;

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


-- # Messages.

-- One row per message that is not done, found by its place. A body may fill pages of its own, and whoever reads only
-- the columns before it leaves those alone.
CREATE TABLE tickwork_messages (
    place INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL,
    id BLOB NOT NULL CHECK (length(id) = 16),
    queue_id BLOB NOT NULL,
    -- A message behind another one of its key is `held`.
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
    -- Of a slot: when it was due, for how long after that it is on time, and its schedule's terms.
    due_at INTEGER,
    grace_seconds INTEGER,
    terms TEXT,
    -- Whether the claim is counted for a cap: only claims of queues with a cap are.
    is_counted INTEGER NOT NULL DEFAULT 0,
    -- Of a slot: its schedule's idempotency key, if there is one; copies and replays have the whole key.
    idempotency_base TEXT,
    -- How a message of a dead-letter queue died, as JSON.
    death TEXT,
    -- NULL while no one has it.
    claimed_at INTEGER,
    -- The node whose process makes a direct call. Only that node gets the message; it is deleted with the node.
    caller BLOB,
    -- The span of the sender, if it was traced.
    traceparent TEXT,
    UNIQUE (tenant, id),
    CHECK ((state = 'claimed') = (holder IS NOT NULL))
) STRICT;
-- What a claim takes: by tenant, the highest priority first, then by age. The state is a column here and below, though
-- it is always the same: only then can SQLite look for lanes, and count, without reading the messages themselves.
CREATE INDEX tickwork_messages_ready ON tickwork_messages (queue_id, tenant, priority DESC, visible_at, id, state)
    WHERE state = 'ready';
-- Pull leases, by their end.
CREATE INDEX tickwork_messages_lease ON tickwork_messages (lease_until)
    WHERE state = 'claimed' AND lease_until IS NOT NULL;
-- Messages whose claims were lost twice: they run without others.
CREATE INDEX tickwork_messages_suspect ON tickwork_messages (queue_id, visible_at, id)
    WHERE state = 'ready' AND lost >= 2;
-- A slot becomes one message for each of its runs, whoever plans it.
CREATE UNIQUE INDEX tickwork_messages_slot ON tickwork_messages (tenant, schedule_id, slot, run)
    WHERE schedule_id IS NOT NULL;
-- The messages of a key in their order.
CREATE INDEX tickwork_messages_key ON tickwork_messages (queue_id, tenant, key, place) WHERE key IS NOT NULL;
-- How many are blocked.
CREATE INDEX tickwork_messages_held ON tickwork_messages (queue_id, tenant, state) WHERE state = 'held';
-- What waits behind others of its key expires like everything else that waits.
CREATE INDEX tickwork_messages_expiring ON tickwork_messages (expires_at)
    WHERE state <> 'claimed' AND expires_at IS NOT NULL;
-- What a dead node leaves.
CREATE INDEX tickwork_messages_holder ON tickwork_messages (holder) WHERE state = 'claimed';
-- The items of a batch that have not ended, and those of them that are claimed.
CREATE INDEX tickwork_messages_batch ON tickwork_messages (tenant, batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX tickwork_messages_batch_claimed ON tickwork_messages (tenant, batch_id, state)
    WHERE batch_id IS NOT NULL AND state = 'claimed';
-- Claims of a tenant, for caps. If every claim were in it, it would cost all claims a write for nobody. What is not
-- counted is found by its holder.
CREATE INDEX tickwork_messages_counted ON tickwork_messages (queue_id, tenant)
    WHERE state = 'claimed' AND is_counted = 1;
CREATE INDEX tickwork_messages_caller ON tickwork_messages (caller) WHERE caller IS NOT NULL;
-- A trace reads everything of one correlation. A message that began its correlation has none, and is found by its id; a
-- row without one costs nothing here.
CREATE INDEX tickwork_messages_correlation ON tickwork_messages (tenant, correlation_id, id)
    WHERE correlation_id IS NOT NULL;
-- Blocked direct calls by key: the one that may pass a send is found without reading the sends behind that one.
CREATE INDEX tickwork_messages_calls ON tickwork_messages (queue_id, tenant, key, place)
    WHERE caller IS NOT NULL AND state = 'held';

-- Events that were done, so that a second one is known.
CREATE TABLE tickwork_events_done (
    tenant TEXT NOT NULL,
    queue_id BLOB NOT NULL,
    event_id TEXT NOT NULL,
    done_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, queue_id, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_events_done_age ON tickwork_events_done (done_at);

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
    -- The run of a workflow whose map these items are: it waits for the completion event.
    run_id TEXT,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_batches_latest ON tickwork_batches (tenant, created_at, id);
-- Batches that are being filled, by age.
CREATE INDEX tickwork_batches_filling ON tickwork_batches (filled_at) WHERE total IS NULL;
-- Batches whose items have all ended and that are not completed yet.
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
    -- When the item's last claim began, and how many attempts a completed one took.
    started_at INTEGER,
    attempts INTEGER,
    PRIMARY KEY (tenant, batch_id, status, id)
) STRICT, WITHOUT ROWID;


-- # Nodes.

-- A running process; what it has claimed is its own as long as its heartbeat comes in time.
CREATE TABLE tickwork_nodes (
    id BLOB PRIMARY KEY NOT NULL,
    name TEXT NOT NULL,
    roles TEXT NOT NULL,
    started_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    -- The versions of workflows that it declares, as JSON: pairs of a workflow and a version.
    workflows TEXT NOT NULL DEFAULT '[]',
    -- Shows whether it can hold shards in time.
    hold_seconds REAL
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_nodes_expiry ON tickwork_nodes (expires_at);


-- # Endpoints and deliveries.

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
    -- The breaker pulls a waiting delivery forward as its probe: `probe_at` is when it looks for one,
    -- `probe_message_id` and `probe_back_at` are the message that it pulled last and when that was due by itself.
    probe_at INTEGER,
    probe_message_id BLOB,
    probe_back_at INTEGER,
    UNIQUE (tenant, name)
) STRICT, WITHOUT ROWID;
-- Open breakers, by the time of their next probe.
CREATE INDEX tickwork_endpoints_probe ON tickwork_endpoints (probe_at) WHERE probe_at IS NOT NULL;

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
CREATE INDEX tickwork_published_correlation ON tickwork_published (tenant, correlation_id, id)
    WHERE correlation_id IS NOT NULL;

-- One row per event and endpoint. It waits while its message exists.
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
    last_error TEXT,
    -- Set if it was not delivered and its message is gone.
    dead_at INTEGER,
    -- The first arrival of a delivery that was sent again: if the resend dies, it counts as delivered then.
    arrived_at INTEGER
) STRICT;
CREATE INDEX tickwork_deliveries_endpoint ON tickwork_deliveries (endpoint_id, published_at, id);
CREATE INDEX tickwork_deliveries_tenant ON tickwork_deliveries (tenant, published_at, id);
-- Those that are not delivered, and below those that are dead, are few among many.
CREATE INDEX tickwork_deliveries_endpoint_open ON tickwork_deliveries (endpoint_id, published_at, id)
    WHERE delivered_at IS NULL;
CREATE INDEX tickwork_deliveries_tenant_open ON tickwork_deliveries (tenant, published_at, id)
    WHERE delivered_at IS NULL;
-- The deliveries of an event, for a trace.
CREATE INDEX tickwork_deliveries_published ON tickwork_deliveries (published_id);
CREATE INDEX tickwork_deliveries_endpoint_dead ON tickwork_deliveries (endpoint_id, published_at, id)
    WHERE dead_at IS NOT NULL;
CREATE INDEX tickwork_deliveries_tenant_dead ON tickwork_deliveries (tenant, published_at, id)
    WHERE dead_at IS NOT NULL;
-- A message that is removed names its delivery: by the same id, or if it is that of a slot or a resent one, by this.
CREATE INDEX tickwork_deliveries_message ON tickwork_deliveries (message_id) WHERE message_id <> id;

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

-- Encrypted secrets: of a tenant, of an endpoint. `number` 0 is the current value, 1 the one before.
CREATE TABLE tickwork_secrets (
    tenant TEXT NOT NULL REFERENCES tickwork_tenants (id),
    owner TEXT NOT NULL,
    field TEXT NOT NULL,
    number INTEGER NOT NULL CHECK (number IN (0, 1)),
    value BLOB NOT NULL,
    expires_at INTEGER,
    PRIMARY KEY (tenant, owner, field, number)
) STRICT, WITHOUT ROWID;


-- # Entities.

-- The state of an entity besides its storage. `schema_version` is that of its class, `changed_by` the message that
-- wrote it last.
CREATE TABLE tickwork_entities (
    tenant TEXT NOT NULL REFERENCES tickwork_tenants (id),
    id BLOB NOT NULL CHECK (length(id) = 16),
    type TEXT NOT NULL,
    key TEXT NOT NULL,
    changed_by BLOB NOT NULL,
    schema_version INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    alarm_id BLOB,
    alarm_at INTEGER,
    dead_alarm_id BLOB,
    schedules TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX tickwork_entities_key ON tickwork_entities (tenant, type, key);

-- The storage of an entity: names and JSON values.
CREATE TABLE tickwork_entity_storage (
    tenant TEXT NOT NULL,
    entity_id BLOB NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (tenant, entity_id, name)
) STRICT, WITHOUT ROWID;

-- The results of idempotent calls.
CREATE TABLE tickwork_entity_results (
    tenant TEXT NOT NULL,
    entity_id BLOB NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    value BLOB,
    error TEXT,
    done_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, entity_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_entity_results_age ON tickwork_entity_results (done_at);


-- # Workflows. `params`, `result`, `output`, `data` and the error of a step are JSON.

-- One row per run of a workflow.
CREATE TABLE tickwork_runs (
    place INTEGER PRIMARY KEY,
    tenant TEXT NOT NULL REFERENCES tickwork_tenants (id),
    id TEXT NOT NULL,
    uid BLOB NOT NULL UNIQUE,
    message_id BLOB NOT NULL,
    workflow TEXT NOT NULL,
    version TEXT,
    status TEXT NOT NULL,
    paused INTEGER NOT NULL DEFAULT 0,
    control TEXT,
    signals INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL DEFAULT 0,
    correlation_id TEXT,
    deadline_at INTEGER,
    created_at INTEGER NOT NULL,
    finished_at INTEGER,
    divergence TEXT,
    error TEXT,
    params BLOB NOT NULL,
    result BLOB,
    -- The items of a map are children of its run.
    parent_id TEXT,
    parent_step TEXT,
    -- Since when its code does not agree with its record, and up to which step that was accepted.
    diverged_at INTEGER,
    accepted INTEGER NOT NULL DEFAULT 0,
    failed_step TEXT,
    UNIQUE (tenant, id)
) STRICT;
CREATE INDEX tickwork_runs_message ON tickwork_runs (message_id);
CREATE INDEX tickwork_runs_finished ON tickwork_runs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX tickwork_runs_correlation ON tickwork_runs (tenant, correlation_id, created_at, uid)
    WHERE correlation_id IS NOT NULL;
-- Lists of runs have no children in them, and a map of many items makes them no slower.
CREATE INDEX tickwork_runs_workflow ON tickwork_runs (tenant, workflow, created_at, uid) WHERE parent_id IS NULL;
CREATE INDEX tickwork_runs_created ON tickwork_runs (tenant, created_at, uid) WHERE parent_id IS NULL;
CREATE INDEX tickwork_runs_parent ON tickwork_runs (tenant, parent_id, created_at, uid) WHERE parent_id IS NOT NULL;
-- Runs that wait for code that agrees with their record.
CREATE INDEX tickwork_runs_diverged ON tickwork_runs (tenant, created_at, uid)
    WHERE diverged_at IS NOT NULL AND status = 'running' AND parent_id IS NULL;
-- What a look at the health reads: runs with an error.
CREATE INDEX tickwork_runs_trouble ON tickwork_runs (tenant, finished_at, uid)
    WHERE parent_id IS NULL AND error IS NOT NULL;

-- The record of a run's steps.
CREATE TABLE tickwork_run_steps (
    uid BLOB NOT NULL,
    key TEXT NOT NULL,
    position INTEGER NOT NULL,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    output BLOB,
    error BLOB,
    wake_at INTEGER,
    started_at INTEGER NOT NULL,
    finished_at INTEGER,
    -- In which order the body got the result, what was called, and with what: new code runs only where it agrees.
    ended INTEGER,
    called TEXT,
    args BLOB,
    PRIMARY KEY (uid, key)
) STRICT, WITHOUT ROWID;

-- The number of an event is that of the signal which brought it.
CREATE TABLE tickwork_run_events (
    uid BLOB NOT NULL,
    number INTEGER NOT NULL,
    type TEXT NOT NULL,
    id TEXT,
    data BLOB NOT NULL,
    sent_at INTEGER NOT NULL,
    consumed_by TEXT,
    PRIMARY KEY (uid, number)
) STRICT, WITHOUT ROWID;
-- An event that is sent again under its id is known.
CREATE UNIQUE INDEX tickwork_run_events_id ON tickwork_run_events (uid, id) WHERE id IS NOT NULL;


-- # What is recorded of the work.

-- Progress of claimed messages: named rows under a work key, which is the same for every attempt.
CREATE TABLE tickwork_progress (
    tenant TEXT NOT NULL,
    work TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    recorded_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, work, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_progress_age ON tickwork_progress (recorded_at);

-- What became of a slot: a row for each attempt. A run of slots that did not fire is one record, up to its last slot.
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
    last_slot INTEGER,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_firings_age ON tickwork_firings (finished_at);
CREATE INDEX tickwork_firings_schedule ON tickwork_firings (tenant, schedule_id, finished_at, id);
CREATE INDEX tickwork_firings_slot ON tickwork_firings (tenant, schedule_id, slot);
-- Runs of slots that did not fire.
CREATE INDEX tickwork_firings_runs ON tickwork_firings (tenant, schedule_id, last_slot)
    WHERE last_slot IS NOT NULL;

-- What will not be delivered again by itself: listed in groups, edited, replayed, discarded, pruned.
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
    -- The group of its error.
    fingerprint TEXT NOT NULL DEFAULT '',
    edited_at INTEGER,
    replayed_as BLOB,
    -- As of its message.
    idempotency_base TEXT,
    death TEXT,
    UNIQUE (tenant, id)
) STRICT;
-- Open ones of a queue: of one tenant, and of all.
CREATE INDEX tickwork_dead_letters_own ON tickwork_dead_letters (queue_id, tenant, failed_at, id, resolution)
    WHERE resolution IS NULL;
CREATE INDEX tickwork_dead_letters_open ON tickwork_dead_letters (queue_id, failed_at, id)
    WHERE resolution IS NULL;
-- By id alone, of any tenant.
CREATE INDEX tickwork_dead_letters_id ON tickwork_dead_letters (id);
-- For the pruner.
CREATE INDEX tickwork_dead_letters_age ON tickwork_dead_letters (failed_at);
CREATE INDEX tickwork_dead_letters_correlation ON tickwork_dead_letters (tenant, correlation_id, id)
    WHERE correlation_id IS NOT NULL;
-- Those that began their correlation, for a trace.
CREATE INDEX tickwork_dead_letters_first ON tickwork_dead_letters (tenant, message_id, id)
    WHERE correlation_id IS NULL;
-- The groups of dead letters are counted from this index, without their bodies.
CREATE INDEX tickwork_dead_letters_group
    ON tickwork_dead_letters (queue_id, tenant, reason, fingerprint, type, failed_at, resolution)
    WHERE resolution IS NULL;
-- The open ones of a tenant in all queues, by age.
CREATE INDEX tickwork_dead_letters_newest ON tickwork_dead_letters (tenant, failed_at, id) WHERE resolution IS NULL;
-- A delivery that is sent again resolves its dead letter, and `why` finds that of a message also after it was resolved.
-- The tenant is not a column of the index: a planner without statistics would use it for lookups by id.
CREATE INDEX tickwork_dead_letters_message ON tickwork_dead_letters (message_id, id);

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
-- Messages that died in the last day are counted by type: few of the counters are of those.
CREATE INDEX tickwork_tallies_dead ON tickwork_tallies (queue_id, minute) WHERE passing = 'dead';


-- # Who may ask, and what was asked.

-- Only hashes of the secrets are stored: the current one, and while it rotates the one before.
CREATE TABLE tickwork_api_keys (
    id TEXT NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL REFERENCES tickwork_tenants (id),
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    owner TEXT,
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    last_used_at INTEGER,
    revoked_at INTEGER,
    secret_hash BLOB NOT NULL,
    previous_hash BLOB,
    previous_until INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_api_keys_tenant ON tickwork_api_keys (tenant, id);

-- Sessions of the console: the hash of what a browser's cookie holds, and the key it was started with.
CREATE TABLE tickwork_sessions (
    id BLOB NOT NULL PRIMARY KEY,
    key_id TEXT NOT NULL REFERENCES tickwork_api_keys (id),
    secret_hash BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    -- The tenant of the key, by which sessions are counted.
    tenant TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_sessions_age ON tickwork_sessions (expires_at);
CREATE INDEX tickwork_sessions_tenant ON tickwork_sessions (tenant, key_id, expires_at);

-- Requests with an Idempotency-Key: what they were, and their answer once they have one.
CREATE TABLE tickwork_requests (
    tenant TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    seed BLOB NOT NULL,
    started_at INTEGER NOT NULL,
    answer BLOB,
    PRIMARY KEY (tenant, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_requests_age ON tickwork_requests (started_at);

-- The audit log: who changed what. `before` and `after` are JSON without secrets.
CREATE TABLE tickwork_audit (
    id BLOB NOT NULL PRIMARY KEY,
    tenant TEXT NOT NULL REFERENCES tickwork_tenants (id),
    at INTEGER NOT NULL,
    actor TEXT NOT NULL,
    action TEXT NOT NULL,
    subject TEXT NOT NULL,
    before TEXT,
    after TEXT
) STRICT;
CREATE INDEX tickwork_audit_tenant ON tickwork_audit (tenant, id);
CREATE INDEX tickwork_audit_at ON tickwork_audit (at);

-- System events of tenants, kept for a day: streams resume from them. `data` is JSON.
CREATE TABLE tickwork_stream_events (
    id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    tenant TEXT NOT NULL,
    owner TEXT,
    at INTEGER NOT NULL,
    type TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT;
CREATE INDEX tickwork_stream_events_tenant ON tickwork_stream_events (tenant, id);
CREATE INDEX tickwork_stream_events_at ON tickwork_stream_events (at);
