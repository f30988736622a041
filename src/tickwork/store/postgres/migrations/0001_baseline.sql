-- The whole schema: every table, its indexes and the rows it starts with.
--
-- The tables follow the way of one slot: whose it is, its schedule, the queue and the message it becomes, the node that
-- claims it, what handles it (deliveries, entities, workflows), and what is recorded of it. Then who may ask.
--
-- Text that identifies something compares by its bytes (COLLATE "C"), so that its order depends on no locale. A
-- table whose rows are updated often leaves room in its pages (fillfactor) and is vacuumed early.


-- # The database and its tenants.

-- One row: what the database says of itself. `cell` is its name; `epoch` counts how often it was replaced by a copy.
CREATE TABLE tickwork_meta (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    schema_version integer NOT NULL,
    cell text NOT NULL DEFAULT 'main',
    epoch integer NOT NULL DEFAULT 0 CHECK (epoch BETWEEN 0 AND 65535),
    tzdata text,
    -- The sum of the known jumps of the clock, in microseconds. Of the last one: the time before it, and the first one
    -- after it.
    clock bigint NOT NULL DEFAULT 0,
    clock_set_from timestamptz,
    clock_set_to timestamptz,
    -- Since when everything is paused: no message of any tenant is claimed. NULL: it is not.
    paused_at timestamptz,
    -- Seconds of the fire window that every schedule has at least, unless it is exact. 0: its own window only.
    widened_seconds integer NOT NULL DEFAULT 0
);

-- A tenant with its quotas; a quota that is NULL does not limit. `…_spent_until` is the time until which a rate is
-- spent.
CREATE TABLE tickwork_tenants (
    id text COLLATE "C" PRIMARY KEY,
    weight integer NOT NULL DEFAULT 1 CHECK (weight > 0),
    suspended boolean NOT NULL DEFAULT false,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    min_interval_seconds integer,
    schedules_max integer,
    schedules_per_second float8,
    schedules_spent_until timestamptz,
    -- What owners may target, as JSON.
    owner_targets text COLLATE "C" NOT NULL DEFAULT '[]',
    messages_per_second float8,
    messages_spent_until timestamptz,
    payload_bytes_max integer,
    backlog_max bigint,
    claimed_max integer,
    -- Emails in a day of UTC, and how many were sent on the day `emails_day`, counted in days since 1970.
    emails_per_day integer,
    emails_day integer NOT NULL DEFAULT 0,
    emails_sent integer NOT NULL DEFAULT 0,
    requests_per_second float8,
    -- What each owner may schedule.
    owner_min_interval_seconds integer,
    owner_schedules_max integer,
    queues_max integer,
    endpoints_max integer,
    subscriptions_max integer,
    sessions_max integer
);
INSERT INTO tickwork_tenants (id) VALUES ('default');


-- # Schedules, and who plans them.

-- `next_slot` is the first slot that is not planned, `look_at` when a leader has to look at it.
CREATE TABLE tickwork_schedules (
    id uuid NOT NULL,
    queue_id uuid NOT NULL,
    next_slot timestamptz,
    due_at timestamptz,
    look_at timestamptz,
    last_slot timestamptz,
    created_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    changed_at timestamptz NOT NULL DEFAULT statement_timestamp(),
    version bigint NOT NULL DEFAULT 1,
    fired bigint NOT NULL DEFAULT 0,
    runs integer NOT NULL DEFAULT 0,
    error_count integer NOT NULL DEFAULT 0,
    expires_after_seconds float8,
    grace_seconds integer NOT NULL,
    bucket smallint NOT NULL CHECK (bucket BETWEEN 0 AND 4095),
    priority smallint NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL
        CHECK (status IN ('active', 'paused', 'completed', 'parked', 'deleted')),
    overlap text COLLATE "C" NOT NULL,
    on_dead text COLLATE "C" NOT NULL,
    rule text COLLATE "C" NOT NULL,
    calendar text COLLATE "C",
    terms text COLLATE "C",
    retry text COLLATE "C",
    queue text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    content_type text COLLATE "C" NOT NULL,
    name text COLLATE "C",
    idempotency_key text COLLATE "C",
    fingerprint bytea,
    last_status text COLLATE "C",
    last_error text,
    metadata bytea NOT NULL,
    body bytea NOT NULL,
    -- Microseconds by which an interval counts from another instant than its rule says.
    shift bigint NOT NULL DEFAULT 0,
    -- The user of the tenant to whom it belongs, if it belongs to one.
    owner text COLLATE "C",
    PRIMARY KEY (tenant, id)
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000
);
-- The only hot read: what a shard's leader has to look at. A shard is 64 buckets; each other number of shards has an
-- index like this one.
CREATE INDEX tickwork_schedules_look ON tickwork_schedules ((bucket / 64), look_at, id)
    WHERE status = 'active' AND look_at IS NOT NULL;
-- What a change of a calendar concerns.
CREATE INDEX tickwork_schedules_calendar ON tickwork_schedules (tenant, calendar, id)
    WHERE calendar IS NOT NULL AND status <> 'deleted';
-- For the pruner.
CREATE INDEX tickwork_schedules_deleted ON tickwork_schedules (changed_at) WHERE status = 'deleted';
-- Those that wait for the end of a run; there are few, and a sweep looks at them.
CREATE INDEX tickwork_schedules_waiting ON tickwork_schedules (tenant, id)
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
-- What a look at the health reads: schedules that are parked or whose last slot failed. A column of a predicate that
-- keeps its value costs an update nothing.
CREATE INDEX tickwork_schedules_trouble ON tickwork_schedules (tenant, id)
    WHERE status = 'parked' OR (status = 'active' AND last_status IN ('failed', 'dead', 'expired'));
-- The schedules of an owner that may still fire, to count them. Those that are over are many more.
CREATE INDEX tickwork_schedules_owned ON tickwork_schedules (tenant, owner)
    WHERE owner IS NOT NULL AND status IN ('active', 'paused', 'parked');

-- How many schedules of a tenant may still fire. The sum is spread over stripes, so that planners and creates do not
-- wait for each other.
CREATE TABLE tickwork_schedule_counts (
    tenant text COLLATE "C" NOT NULL,
    stripe smallint NOT NULL,
    schedules bigint NOT NULL,
    PRIMARY KEY (tenant, stripe)
);

-- Days off, by name.
CREATE TABLE tickwork_calendars (
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    days text[] NOT NULL,
    version bigint NOT NULL DEFAULT 1,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- Who leads which shard; their number is a power of two up to 256. The token rises with every hand-over.
CREATE TABLE tickwork_shards (
    shard smallint PRIMARY KEY CHECK (shard BETWEEN 0 AND 255),
    token bigint NOT NULL DEFAULT 0,
    node uuid,
    taken_at timestamptz,
    -- The oldest version of the zone data that the shard's stored times may be from. NULL: it is not known.
    tzdata text COLLATE "C",
    -- The sum of the jumps of the clock that the shard's intervals follow, in microseconds.
    clock bigint NOT NULL DEFAULT 0,
    -- Since when the shard is free. A node that takes one beyond its share keeps it until `kept_until`.
    freed_at timestamptz,
    kept_until timestamptz
) WITH (fillfactor = 50);
INSERT INTO tickwork_shards (shard) SELECT generate_series(0, 63);


-- # Queues, and what limits and feeds them.

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
    -- Until when its rate is spent; whether its claims have to agree with each other on what they may take, and its
    -- sends on how much may wait.
    spent_until timestamptz,
    is_governed boolean NOT NULL DEFAULT false,
    is_capped boolean NOT NULL DEFAULT false,
    -- When a consumer last asked for messages, to about ten seconds.
    pulled_at timestamptz,
    UNIQUE NULLS NOT DISTINCT (tenant, name)
);
CREATE INDEX tickwork_queues_capped ON tickwork_queues (id) WHERE is_capped;
-- Few queues push, or have a named limit.
CREATE INDEX tickwork_queues_push ON tickwork_queues ((settings ->> 'push_to'))
    WHERE settings ->> 'push_to' IS NOT NULL;
CREATE INDEX tickwork_queues_limit ON tickwork_queues ((settings ->> 'limit'))
    WHERE settings ->> 'limit' IS NOT NULL;

-- The bytes that wait in a queue with a cap, in stripes that are summed.
CREATE TABLE tickwork_backlogs (
    queue_id uuid NOT NULL,
    stripe smallint NOT NULL,
    bytes bigint NOT NULL,
    PRIMARY KEY (queue_id, stripe)
) WITH (fillfactor = 50);

-- Named limits, which queues and endpoints share. `spent_until` is the time until which the rate is spent.
CREATE TABLE tickwork_limits (
    tenant text COLLATE "C" REFERENCES tickwork_tenants (id),
    name text COLLATE "C" NOT NULL,
    rate float8,
    period_seconds float8 NOT NULL,
    concurrency integer,
    spent_until timestamptz
);
CREATE UNIQUE INDEX tickwork_limits_name ON tickwork_limits (coalesce(tenant, ''), name);

-- Deliveries to endpoints that use a named limit with a concurrency. A use ends with its claim; the next one who takes
-- from the limit deletes it.
CREATE TABLE tickwork_limit_uses (
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    message_id uuid NOT NULL,
    claim bigint NOT NULL,
    PRIMARY KEY (tenant, name, message_id)
);

-- A subscription without a tenant is the system's, and is for every tenant's messages.
CREATE TABLE tickwork_subscriptions (
    tenant text COLLATE "C" REFERENCES tickwork_tenants,
    types text COLLATE "C" NOT NULL,
    queue_id uuid NOT NULL REFERENCES tickwork_queues ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE NULLS NOT DISTINCT (tenant, types, queue_id)
);
CREATE INDEX tickwork_subscriptions_queue ON tickwork_subscriptions (queue_id);


-- # Messages.

-- One row per message that is not done. The first columns are of a fixed width: rows are many, and padded.
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
    -- A message behind another one of its key is `held`.
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
    -- Where the message stands among those of its key; the earliest is the only one that is not `held`.
    place bigint,
    -- Of a slot: when it was due, for how long after that it is on time, and its schedule's terms.
    due_at timestamptz,
    grace_seconds integer,
    terms text COLLATE "C",
    -- Whether the claim is counted for a cap: only claims of queues with a cap are.
    is_counted boolean NOT NULL DEFAULT false,
    -- Of a slot: its schedule's idempotency key, if there is one; copies and replays have the whole key.
    idempotency_base text COLLATE "C",
    -- How a message of a dead-letter queue died, as JSON.
    death text,
    -- NULL while no one has it.
    claimed_at timestamptz,
    -- The node whose process makes a direct call. Only that node gets the message; it is deleted with the node.
    caller uuid,
    -- The span of the sender, if it was traced.
    traceparent text COLLATE "C",
    PRIMARY KEY (tenant, id),
    CHECK ((state = 'claimed') = (holder IS NOT NULL))
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);
-- What a claim takes: by tenant, the highest priority first, then by age.
CREATE INDEX tickwork_messages_ready ON tickwork_messages (queue_id, tenant, priority DESC, visible_at, id)
    WHERE state = 'ready';
-- What a dead node leaves.
CREATE INDEX tickwork_messages_holder ON tickwork_messages (holder) WHERE state = 'claimed';
-- Pull leases, by their end.
CREATE INDEX tickwork_messages_lease ON tickwork_messages (lease_until)
    WHERE state = 'claimed' AND lease_until IS NOT NULL;
-- Messages whose claims were lost twice: they run without others.
CREATE INDEX tickwork_messages_suspect ON tickwork_messages (queue_id, tenant, visible_at, id)
    WHERE state = 'ready' AND lost >= 2;
-- A slot becomes one message for each of its runs, whoever plans it.
CREATE UNIQUE INDEX tickwork_messages_slot ON tickwork_messages (tenant, schedule_id, slot, run)
    WHERE schedule_id IS NOT NULL;
-- The messages of a key in their order.
CREATE INDEX tickwork_messages_key ON tickwork_messages (queue_id, tenant, key, place) WHERE key IS NOT NULL;
-- What waits behind others of its key expires like everything else that waits.
CREATE INDEX tickwork_messages_expiring ON tickwork_messages (expires_at)
    WHERE state <> 'claimed' AND expires_at IS NOT NULL;
-- The items of a batch that have not ended, and those of them that are claimed.
CREATE INDEX tickwork_messages_batch ON tickwork_messages (tenant, batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX tickwork_messages_batch_claimed ON tickwork_messages (tenant, batch_id)
    WHERE batch_id IS NOT NULL AND state = 'claimed';
-- Claims of a tenant, for caps. If every claim were in it, its entries would be all alike and cost a claim more than
-- all other indexes. What is not counted is found by its holder.
CREATE INDEX tickwork_messages_counted ON tickwork_messages (queue_id, tenant)
    WHERE state = 'claimed' AND is_counted;
CREATE INDEX tickwork_messages_caller ON tickwork_messages (caller) WHERE caller IS NOT NULL;
-- A trace reads everything of one correlation. A message that began its correlation has none, and is found by its id; a
-- row without one costs nothing here.
CREATE INDEX tickwork_messages_correlation ON tickwork_messages (tenant, correlation_id, id)
    WHERE correlation_id IS NOT NULL;
-- Blocked direct calls by key: the one that may pass a send is found without reading the sends behind that one.
CREATE INDEX tickwork_messages_calls ON tickwork_messages (queue_id, tenant, key, place)
    WHERE caller IS NOT NULL AND state = 'held';

-- A key has a row while it has messages: whoever sends to it or frees it holds that row meanwhile.
CREATE TABLE tickwork_keys (
    tenant text COLLATE "C" NOT NULL,
    queue_id uuid NOT NULL,
    key text COLLATE "C" NOT NULL,
    last_place bigint NOT NULL,
    PRIMARY KEY (tenant, queue_id, key)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 2000);

-- One row per accepted group of sends, so that a repeat after a lost answer is known, also when its messages are done
-- and gone.
CREATE TABLE tickwork_receipts (
    id uuid PRIMARY KEY,
    accepted_at timestamptz NOT NULL
);

-- Events that were done, so that a second one is known.
CREATE TABLE tickwork_events_done (
    tenant text COLLATE "C" NOT NULL,
    queue_id uuid NOT NULL,
    event_id text COLLATE "C" NOT NULL,
    done_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, queue_id, event_id)
);
CREATE INDEX tickwork_events_done_age ON tickwork_events_done (done_at);

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
    -- The run of a workflow whose map these items are: it waits for the completion event.
    run_id text COLLATE "C",
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
    -- When the item's last claim began, and how many attempts a completed one took.
    started_at timestamptz,
    attempts integer,
    PRIMARY KEY (tenant, batch_id, status, id)
);


-- # Nodes.

-- A running process; what it has claimed is its own as long as its heartbeat comes in time.
CREATE TABLE tickwork_nodes (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    roles text[] NOT NULL,
    started_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    -- The versions of workflows that it declares, as JSON: pairs of a workflow and a version.
    workflows text NOT NULL DEFAULT '[]',
    -- Shows whether it can hold shards in time.
    hold_seconds double precision
);
CREATE INDEX tickwork_nodes_expiry ON tickwork_nodes (expires_at);


-- # Endpoints and deliveries.

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
    -- The breaker pulls a waiting delivery forward as its probe: `probe_at` is when it looks for one,
    -- `probe_message_id` and `probe_back_at` are the message that it pulled last and when that was due by itself.
    probe_at timestamptz,
    probe_message_id uuid,
    probe_back_at timestamptz,
    UNIQUE (tenant, name)
);
-- Open breakers, by the time of their next probe.
CREATE INDEX tickwork_endpoints_probe ON tickwork_endpoints (probe_at) WHERE probe_at IS NOT NULL;

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
CREATE INDEX tickwork_published_correlation ON tickwork_published (tenant, correlation_id, id)
    WHERE correlation_id IS NOT NULL;

-- One row per event and endpoint. It waits while its message exists.
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
    last_error text,
    -- Set if it was not delivered and its message is gone.
    dead_at timestamptz,
    -- The first arrival of a delivery that was sent again: if the resend dies, it counts as delivered then.
    arrived_at timestamptz
);
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

-- Encrypted secrets: of a tenant, of an endpoint. `number` 0 is the current value, 1 the one before.
CREATE TABLE tickwork_secrets (
    tenant text COLLATE "C" NOT NULL REFERENCES tickwork_tenants (id),
    owner text COLLATE "C" NOT NULL,
    field text COLLATE "C" NOT NULL,
    number smallint NOT NULL CHECK (number IN (0, 1)),
    value bytea NOT NULL,
    expires_at timestamptz,
    PRIMARY KEY (tenant, owner, field, number)
);


-- # Entities.

-- The state of an entity besides its storage. `schema_version` is that of its class, `changed_by` the message that
-- wrote it last.
CREATE TABLE tickwork_entities (
    tenant text COLLATE "C" NOT NULL REFERENCES tickwork_tenants (id),
    id uuid NOT NULL,
    type text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    changed_by uuid NOT NULL,
    schema_version integer NOT NULL,
    bytes bigint NOT NULL,
    alarm_id uuid,
    alarm_at timestamptz,
    dead_alarm_id uuid,
    schedules text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX tickwork_entities_key ON tickwork_entities (tenant, type, key);

-- The storage of an entity: names and JSON values.
CREATE TABLE tickwork_entity_storage (
    tenant text COLLATE "C" NOT NULL,
    entity_id uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (tenant, entity_id, name)
);

-- The results of idempotent calls.
CREATE TABLE tickwork_entity_results (
    tenant text COLLATE "C" NOT NULL,
    entity_id uuid NOT NULL,
    key text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    value bytea,
    error text COLLATE "C",
    done_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, entity_id, key)
);
CREATE INDEX tickwork_entity_results_age ON tickwork_entity_results (done_at);


-- # Workflows. `params`, `result`, `output`, `data` and the error of a step are JSON.

-- One row per run of a workflow.
CREATE TABLE tickwork_runs (
    tenant text COLLATE "C" NOT NULL REFERENCES tickwork_tenants (id),
    id text COLLATE "C" NOT NULL,
    uid uuid NOT NULL UNIQUE,
    message_id uuid NOT NULL,
    workflow text COLLATE "C" NOT NULL,
    version text COLLATE "C",
    status text COLLATE "C" NOT NULL,
    paused boolean NOT NULL DEFAULT false,
    control text COLLATE "C",
    signals bigint NOT NULL DEFAULT 0,
    generation integer NOT NULL DEFAULT 0,
    correlation_id text COLLATE "C",
    deadline_at timestamptz,
    created_at timestamptz NOT NULL,
    finished_at timestamptz,
    divergence text COLLATE "C",
    error text COLLATE "C",
    params bytea NOT NULL,
    result bytea,
    -- The items of a map are children of its run.
    parent_id text COLLATE "C",
    parent_step text COLLATE "C",
    -- Since when its code does not agree with its record, and up to which step that was accepted.
    diverged_at timestamptz,
    accepted integer NOT NULL DEFAULT 0,
    failed_step text COLLATE "C",
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 80);
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
    uid uuid NOT NULL,
    key text COLLATE "C" NOT NULL,
    position integer NOT NULL,
    kind text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    attempts integer NOT NULL,
    output bytea,
    error bytea,
    wake_at timestamptz,
    started_at timestamptz NOT NULL,
    finished_at timestamptz,
    -- In which order the body got the result, what was called, and with what: new code runs only where it agrees.
    ended integer,
    called text COLLATE "C",
    args bytea,
    PRIMARY KEY (uid, key)
);

-- The number of an event is that of the signal which brought it.
CREATE TABLE tickwork_run_events (
    uid uuid NOT NULL,
    number bigint NOT NULL,
    type text COLLATE "C" NOT NULL,
    id text COLLATE "C",
    data bytea NOT NULL,
    sent_at timestamptz NOT NULL,
    consumed_by text COLLATE "C",
    PRIMARY KEY (uid, number)
);
-- An event that is sent again under its id is known.
CREATE UNIQUE INDEX tickwork_run_events_id ON tickwork_run_events (uid, id) WHERE id IS NOT NULL;


-- # What is recorded of the work.

-- Progress of claimed messages: named rows under a work key, which is the same for every attempt.
CREATE TABLE tickwork_progress (
    tenant text COLLATE "C" NOT NULL,
    work text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    value text NOT NULL,
    recorded_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, work, name)
);
CREATE INDEX tickwork_progress_age ON tickwork_progress (recorded_at);

-- What became of a slot: a row for each attempt. A run of slots that did not fire is one record, up to its last slot.
-- Firings lie in the partition of the day on which they were recorded, so that a day goes as a whole. What has no day
-- of its own yet lies in the default partition: recording never fails.
CREATE TABLE tickwork_firings (
    id uuid NOT NULL,
    schedule_id uuid NOT NULL,
    slot timestamptz NOT NULL,
    last_slot timestamptz,
    due_at timestamptz NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz NOT NULL,
    run integer NOT NULL,
    count integer NOT NULL DEFAULT 1,
    result_code integer,
    attempt smallint NOT NULL,
    catch_up boolean NOT NULL DEFAULT false,
    tenant text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL,
    reason text COLLATE "C",
    excerpt text,
    channels jsonb NOT NULL DEFAULT '[]',
    PRIMARY KEY (tenant, id, finished_at)
) PARTITION BY RANGE (finished_at);
CREATE INDEX tickwork_firings_schedule ON tickwork_firings (tenant, schedule_id, finished_at, id);
CREATE INDEX tickwork_firings_slot ON tickwork_firings (tenant, schedule_id, slot);
-- Runs of slots that did not fire.
CREATE INDEX tickwork_firings_run ON tickwork_firings (tenant, schedule_id, last_slot)
    WHERE last_slot IS NOT NULL;
CREATE TABLE tickwork_firings_default PARTITION OF tickwork_firings DEFAULT;
-- By age, for the pruner alone: an index that pages could be read by would be, and by no schedule.
CREATE INDEX tickwork_firings_default_age
    ON tickwork_firings_default ((finished_at AT TIME ZONE 'UTC'));
-- Today and the next days at once; later ones are the pruner's to make.
DO $$
DECLARE
    today CONSTANT date := (clock_timestamp() AT TIME ZONE 'UTC')::date;
BEGIN
    FOR n IN 0..2 LOOP
        EXECUTE format(
            'CREATE TABLE tickwork_firings_%s PARTITION OF tickwork_firings FOR VALUES FROM (%L) TO (%L)',
            to_char(today + n, 'YYYYMMDD'), today + n || ' 00:00:00+00', today + n + 1 || ' 00:00:00+00'
        );
    END LOOP;
END $$;

-- What will not be delivered again by itself: listed in groups, edited, replayed, discarded, pruned.
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
    -- The group of its error.
    fingerprint text NOT NULL DEFAULT '',
    edited_at timestamptz,
    replayed_as uuid,
    -- As of its message.
    idempotency_base text COLLATE "C",
    death text,
    PRIMARY KEY (tenant, id)
);
-- Open ones of a queue: of one tenant, and of all.
CREATE INDEX tickwork_dead_letters_own ON tickwork_dead_letters (queue_id, tenant, failed_at, id)
    WHERE resolution IS NULL;
CREATE INDEX tickwork_dead_letters_open ON tickwork_dead_letters (queue_id, failed_at, id)
    WHERE resolution IS NULL;
-- Ids sort by age: the pruner needs no other index.
CREATE INDEX tickwork_dead_letters_id ON tickwork_dead_letters (id);
CREATE INDEX tickwork_dead_letters_correlation ON tickwork_dead_letters (tenant, correlation_id, id)
    WHERE correlation_id IS NOT NULL;
-- Those that began their correlation, for a trace.
CREATE INDEX tickwork_dead_letters_first ON tickwork_dead_letters (tenant, message_id, id)
    WHERE correlation_id IS NULL;
-- The open ones of a tenant in all queues, by age.
CREATE INDEX tickwork_dead_letters_newest ON tickwork_dead_letters (tenant, failed_at, id) WHERE resolution IS NULL;
-- A delivery that is sent again resolves its dead letter, and `why` finds that of a message also after it was resolved.
-- The tenant is not a column of the index: a planner without statistics would use it for lookups by id.
CREATE INDEX tickwork_dead_letters_message ON tickwork_dead_letters (message_id, id);

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
-- Messages that died in the last day are counted by type: few of the counters are of those.
CREATE INDEX tickwork_tallies_dead ON tickwork_tallies (queue_id, minute) WHERE passing = 'dead';


-- # Who may ask, and what was asked.

-- Only hashes of the secrets are stored: the current one, and while it rotates the one before.
CREATE TABLE tickwork_api_keys (
    id text COLLATE "C" PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL REFERENCES tickwork_tenants (id),
    name text COLLATE "C" NOT NULL,
    scopes text COLLATE "C" NOT NULL,
    owner text COLLATE "C",
    created_at timestamptz NOT NULL,
    expires_at timestamptz,
    last_used_at timestamptz,
    revoked_at timestamptz,
    secret_hash bytea NOT NULL,
    previous_hash bytea,
    previous_until timestamptz
);
CREATE INDEX tickwork_api_keys_tenant ON tickwork_api_keys (tenant, id);

-- Sessions of the console: the hash of what a browser's cookie holds, and the key it was started with.
CREATE TABLE tickwork_sessions (
    id bytea PRIMARY KEY,
    key_id text COLLATE "C" NOT NULL REFERENCES tickwork_api_keys (id),
    secret_hash bytea NOT NULL,
    expires_at timestamptz NOT NULL,
    -- The tenant of the key, by which sessions are counted.
    tenant text COLLATE "C" NOT NULL DEFAULT ''
);
CREATE INDEX tickwork_sessions_age ON tickwork_sessions (expires_at);
CREATE INDEX tickwork_sessions_tenant ON tickwork_sessions (tenant, key_id, expires_at);

-- Requests with an Idempotency-Key: what they were, and their answer once they have one.
CREATE TABLE tickwork_requests (
    tenant text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    seed uuid NOT NULL,
    started_at timestamptz NOT NULL,
    answer bytea,
    PRIMARY KEY (tenant, key)
);
CREATE INDEX tickwork_requests_age ON tickwork_requests (started_at);

-- The audit log: who changed what. `before` and `after` are JSON without secrets.
CREATE TABLE tickwork_audit (
    id uuid PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL REFERENCES tickwork_tenants (id),
    at timestamptz NOT NULL,
    actor text COLLATE "C" NOT NULL,
    action text COLLATE "C" NOT NULL,
    subject text COLLATE "C" NOT NULL,
    before text COLLATE "C",
    after text COLLATE "C"
);
CREATE INDEX tickwork_audit_tenant ON tickwork_audit (tenant, id);
CREATE INDEX tickwork_audit_at ON tickwork_audit (at);

-- System events of tenants, kept for a day: streams resume from them. `data` is JSON.
CREATE TABLE tickwork_stream_events (
    id uuid PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    owner text COLLATE "C",
    at timestamptz NOT NULL,
    type text COLLATE "C" NOT NULL,
    data text COLLATE "C" NOT NULL
);
CREATE INDEX tickwork_stream_events_tenant ON tickwork_stream_events (tenant, id);
CREATE INDEX tickwork_stream_events_at ON tickwork_stream_events (at);
