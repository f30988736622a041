-- Runs of workflows, the record of their steps, and their events. `params`, `result`, `output`, `data` and the
-- error of a step are JSON.

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
    UNIQUE (tenant, id)
) STRICT;
CREATE INDEX tickwork_runs_message ON tickwork_runs (message_id);
CREATE INDEX tickwork_runs_workflow ON tickwork_runs (tenant, workflow, created_at, uid);
CREATE INDEX tickwork_runs_created ON tickwork_runs (tenant, created_at, uid);
CREATE INDEX tickwork_runs_finished ON tickwork_runs (finished_at) WHERE finished_at IS NOT NULL;

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
CREATE UNIQUE INDEX tickwork_run_events_id ON tickwork_run_events (uid, id) WHERE id IS NOT NULL;
