-- How messages of each queue and type fared. A settlement notes what it ended, and a moment later the notes are rolled
-- up: they are deleted and added to the rows of their minute and hour in one transaction.
CREATE TABLE tickwork_ended_counts (
    place INTEGER PRIMARY KEY,
    ended_at INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL,
    type TEXT,
    done INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    discarded INTEGER NOT NULL,
    -- Microseconds for which each message waited for its handler, and which that ran, as JSON.
    waits TEXT NOT NULL,
    runs TEXT NOT NULL
) STRICT;
CREATE TABLE tickwork_performance (
    tenant TEXT NOT NULL,
    width TEXT NOT NULL,
    period INTEGER NOT NULL,
    queue TEXT NOT NULL,
    -- An empty one means none.
    type TEXT NOT NULL,
    done INTEGER NOT NULL,
    failed INTEGER NOT NULL,
    discarded INTEGER NOT NULL,
    -- Histograms as JSON: numbers of messages by bucket.
    waits TEXT NOT NULL,
    runs TEXT NOT NULL,
    PRIMARY KEY (tenant, width, period, queue, type)
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_performance_age ON tickwork_performance (width, period);
