-- Deletes chunks of the default partition whose time has come. Other partitions are dropped as a whole.
DELETE FROM tickwork_message_history_default WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM tickwork_message_history_default WHERE drop_at <= $1 LIMIT $2
))
