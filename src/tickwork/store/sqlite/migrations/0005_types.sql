-- The types of messages that apps declare: what a queue takes of a type, by app. An empty type is any.
CREATE TABLE tickwork_types (
    queue_id BLOB NOT NULL REFERENCES tickwork_queues ON DELETE CASCADE,
    type TEXT NOT NULL,
    app TEXT NOT NULL,
    version TEXT NOT NULL,
    schema TEXT NOT NULL,
    handlers TEXT NOT NULL,
    first_seen_at INTEGER NOT NULL,
    last_seen_at INTEGER NOT NULL,
    PRIMARY KEY (queue_id, type, app)
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_types_seen ON tickwork_types (last_seen_at);
