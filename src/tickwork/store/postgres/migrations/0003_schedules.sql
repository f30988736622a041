-- Schedules, their leaders, calendars, and what a slot's message carries.

-- What a tenant may have of schedules; until when its rate of making them is spent.
ALTER TABLE tickwork_tenants
    ADD COLUMN min_interval_seconds integer,
    ADD COLUMN schedules_max integer,
    ADD COLUMN schedules_per_second float8,
    ADD COLUMN schedules_spent_until timestamptz;

-- Of a slot: when it was due, for how long after that it is on time, and its schedule's terms.
ALTER TABLE tickwork_messages
    ADD COLUMN due_at timestamptz,
    ADD COLUMN grace_seconds integer,
    ADD COLUMN terms text COLLATE "C";

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
    PRIMARY KEY (tenant, id)
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 2000
);

-- The only hot read: what a shard's leader has to look at. A shard is 64 buckets; other ranges
-- need another index like this one, and nothing else.
CREATE INDEX tickwork_schedules_look ON tickwork_schedules ((bucket / 64), look_at, id)
    WHERE status = 'active' AND look_at IS NOT NULL;
CREATE UNIQUE INDEX tickwork_schedules_name ON tickwork_schedules (tenant, name)
    WHERE name IS NOT NULL AND status <> 'deleted';
CREATE UNIQUE INDEX tickwork_schedules_key ON tickwork_schedules (tenant, idempotency_key)
    WHERE idempotency_key IS NOT NULL;
CREATE INDEX tickwork_schedules_calendar ON tickwork_schedules (tenant, calendar, id)
    WHERE calendar IS NOT NULL AND status <> 'deleted';
-- Deleted ones, for the pruner.
CREATE INDEX tickwork_schedules_deleted ON tickwork_schedules (changed_at) WHERE status = 'deleted';
-- Those that wait for the end of a run; there are few, and a sweep looks at them.
CREATE INDEX tickwork_schedules_waiting ON tickwork_schedules (tenant, id)
    WHERE status = 'active' AND next_slot IS NULL;

-- Who leads which shard. The token rises with every hand-over.
CREATE TABLE tickwork_shards (
    shard smallint PRIMARY KEY CHECK (shard BETWEEN 0 AND 63),
    token bigint NOT NULL DEFAULT 0,
    node uuid,
    taken_at timestamptz
) WITH (fillfactor = 50);
INSERT INTO tickwork_shards (shard) SELECT generate_series(0, 63);

CREATE TABLE tickwork_calendars (
    tenant text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    days text[] NOT NULL,
    version bigint NOT NULL DEFAULT 1,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, name)
);

-- Firings by the day on which they were recorded, so that a day goes as a whole. What has no day of its
-- own yet lies in the default partition: recording never fails.
ALTER TABLE tickwork_firings RENAME TO tickwork_firings_before;
DROP INDEX tickwork_firings_schedule, tickwork_firings_age;
ALTER TABLE tickwork_firings_before DROP CONSTRAINT tickwork_firings_pkey;
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
-- A run of slots that did not fire is one record, up to its last slot.
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
INSERT INTO tickwork_firings (
    tenant, id, schedule_id, slot, run, attempt, status, reason, due_at, started_at, finished_at,
    result_code, excerpt, channels, catch_up, count
)
SELECT tenant, id, schedule_id, slot, run, attempt, status, reason, due_at, started_at, finished_at,
    result_code, excerpt, channels, catch_up, count
FROM tickwork_firings_before;
DROP TABLE tickwork_firings_before;
