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
