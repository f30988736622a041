-- What queues keep that have no setting of their own.
SELECT history, history_seconds FROM tickwork_meta
