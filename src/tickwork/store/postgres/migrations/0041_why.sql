-- `why` finds the dead letter of a message also after it was resolved.
DROP INDEX tickwork_dead_letters_message;
CREATE INDEX tickwork_dead_letters_message ON tickwork_dead_letters (message_id, id);

-- When a consumer last asked for messages of a queue, to about ten seconds.
ALTER TABLE tickwork_queues ADD COLUMN pulled_at timestamptz;
