-- What became of messages that have ended. The messages that one settlement ends are one chunk, so that a record costs
-- a few bytes and no index entry of its own. A chunk lies in the partition of the hour from which on it may be dropped.
-- Chunks without a partition of their hour lie in the default partition: recording never fails.
CREATE TYPE tickwork_ended AS (
    id uuid,
    outcome text,
    reason text,
    attempts integer,
    sent_at timestamptz,
    started_at timestamptz,
    type text,
    source text,
    key text,
    event_id text,
    correlation_id text,
    causation_id text,
    batch_id uuid,
    schedule_id uuid,
    slot timestamptz,
    run integer,
    content_type text,
    body bytea
);
CREATE TABLE tickwork_message_history (
    ended_at timestamptz NOT NULL,
    drop_at timestamptz NOT NULL,
    tenant text COLLATE "C" NOT NULL,
    queue text COLLATE "C" NOT NULL,
    -- The name of the node; NULL if none had the messages.
    node text COLLATE "C",
    records tickwork_ended[] NOT NULL,
    -- Hashes of what the records can be found by: their ids, event ids, keys and correlation ids.
    marks integer[] NOT NULL
) PARTITION BY LIST (drop_at);
CREATE INDEX tickwork_message_history_time ON tickwork_message_history (tenant, ended_at);
CREATE INDEX tickwork_message_history_marks ON tickwork_message_history USING gin (marks);
CREATE TABLE tickwork_message_history_default PARTITION OF tickwork_message_history DEFAULT;
CREATE INDEX tickwork_message_history_default_age ON tickwork_message_history_default (drop_at);
-- What queues keep that have no setting of their own.
ALTER TABLE tickwork_meta
    ADD COLUMN history text NOT NULL DEFAULT 'all' CHECK (history IN ('all', 'failures', 'off')),
    ADD COLUMN history_seconds integer NOT NULL DEFAULT 86400;
-- The hours of the default retention at once; later ones are the pruner's to make.
DO $$
DECLARE
    first CONSTANT timestamptz := date_trunc('hour', clock_timestamp(), 'UTC') + interval '25 hours';
BEGIN
    FOR n IN 0..3 LOOP
        EXECUTE format(
            'CREATE TABLE tickwork_message_history_%s PARTITION OF tickwork_message_history FOR VALUES IN (%L)',
            to_char((first + n * interval '1 hour') AT TIME ZONE 'UTC', 'YYYYMMDDHH24'), first + n * interval '1 hour'
        );
    END LOOP;
END $$;
