-- Creates the partition of the chunks that may be dropped from an hour on.
CREATE TABLE IF NOT EXISTS tickwork_message_history_/*hour*/ PARTITION OF tickwork_message_history FOR VALUES IN ('/*start*/')
