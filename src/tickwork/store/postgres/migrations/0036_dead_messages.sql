-- `why` finds the dead letter of a message also after it was resolved.
DROP INDEX tickwork_dead_letters_message;
CREATE INDEX tickwork_dead_letters_message ON tickwork_dead_letters (message_id, id);
