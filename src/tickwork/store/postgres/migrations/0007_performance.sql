-- How messages of each queue and type fared. A settlement notes what it ended, and a moment later the notes are rolled
-- up: they are deleted and added to the rows of their minute and hour in one transaction.
CREATE TABLE tickwork_ended_counts (
    ended_at timestamptz NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    type text COLLATE "C",
    done integer NOT NULL,
    failed integer NOT NULL,
    discarded integer NOT NULL,
    -- Seconds for which each message waited for its handler, and which that ran.
    waits real[],
    runs real[]
) WITH (
    autovacuum_vacuum_scale_factor = 0,
    autovacuum_vacuum_threshold = 2000,
    autovacuum_vacuum_cost_delay = 0
);
CREATE TABLE tickwork_performance (
    tenant text COLLATE "C" NOT NULL,
    width text COLLATE "C" NOT NULL,
    period timestamptz NOT NULL,
    queue text COLLATE "C" NOT NULL,
    -- An empty one means none.
    type text COLLATE "C" NOT NULL,
    done bigint NOT NULL,
    failed bigint NOT NULL,
    discarded bigint NOT NULL,
    -- Histograms as JSON: numbers of messages by bucket.
    waits text NOT NULL,
    runs text NOT NULL,
    PRIMARY KEY (tenant, width, period, queue, type)
) WITH (fillfactor = 70);
CREATE INDEX tickwork_performance_age ON tickwork_performance (width, period);
