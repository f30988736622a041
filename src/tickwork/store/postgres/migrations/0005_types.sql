-- The types of messages that apps declare: what a queue takes of a type, by app. An empty type is any.
CREATE TABLE tickwork_types (
    queue_id uuid NOT NULL REFERENCES tickwork_queues ON DELETE CASCADE,
    type text COLLATE "C" NOT NULL,
    app text COLLATE "C" NOT NULL,
    version text COLLATE "C" NOT NULL,
    schema text NOT NULL,
    handlers text NOT NULL,
    first_seen_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    PRIMARY KEY (queue_id, type, app)
);
CREATE INDEX tickwork_types_seen ON tickwork_types (last_seen_at);
