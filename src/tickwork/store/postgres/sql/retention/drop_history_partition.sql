-- Drops the partition of an hour.
DROP TABLE tickwork_message_history_/*hour*/
