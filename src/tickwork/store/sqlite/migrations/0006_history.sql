-- What became of messages that have ended. The messages that one settlement ends are one chunk: `records` is a list of
-- lists, in the order of `ENDED` in `store/shared/columns`. A chunk may be dropped from `drop_at` on, which is a whole
-- hour, together with all others of that hour.
CREATE TABLE tickwork_message_history (
    place INTEGER PRIMARY KEY,
    ended_at INTEGER NOT NULL,
    drop_at INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    queue TEXT NOT NULL,
    -- The name of the node; NULL if none had the messages.
    node TEXT,
    records TEXT NOT NULL
) STRICT;
CREATE INDEX tickwork_message_history_time ON tickwork_message_history (tenant, ended_at);
CREATE INDEX tickwork_message_history_drop ON tickwork_message_history (drop_at);
-- What the records of a chunk can be found by: the start of their ids, their event ids, keys and correlation ids.
CREATE TABLE tickwork_message_history_marks (
    drop_at INTEGER NOT NULL,
    mark TEXT NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (drop_at, mark, place)
) STRICT, WITHOUT ROWID;
-- What queues keep that have no setting of their own.
ALTER TABLE tickwork_meta ADD COLUMN history TEXT NOT NULL DEFAULT 'all' CHECK (history IN ('all', 'failures', 'off'));
ALTER TABLE tickwork_meta ADD COLUMN history_seconds INTEGER NOT NULL DEFAULT 86400;
