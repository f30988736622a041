-- The signals of the run that a message stands for.
SELECT signals FROM tickwork_runs WHERE message_id = ?1
