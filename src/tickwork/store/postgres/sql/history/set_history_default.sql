-- Sets what queues keep that have no setting of their own.
UPDATE tickwork_meta SET history = $1, history_seconds = $2
