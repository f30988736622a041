-- Runs of workflows, the record of their steps, and their events. `params`, `result`, `output`, `data` and the
-- error of a step are JSON.

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
    PRIMARY KEY (tenant, id)
) WITH (fillfactor = 80);
CREATE INDEX tickwork_runs_message ON tickwork_runs (message_id);
CREATE INDEX tickwork_runs_workflow ON tickwork_runs (tenant, workflow, created_at, uid);
CREATE INDEX tickwork_runs_created ON tickwork_runs (tenant, created_at, uid);
CREATE INDEX tickwork_runs_finished ON tickwork_runs (finished_at) WHERE finished_at IS NOT NULL;

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
CREATE UNIQUE INDEX tickwork_run_events_id ON tickwork_run_events (uid, id) WHERE id IS NOT NULL;
