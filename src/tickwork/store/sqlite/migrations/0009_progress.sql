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
