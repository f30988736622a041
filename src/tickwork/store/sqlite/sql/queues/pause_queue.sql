-- Pauses or resumes claims from a queue.
UPDATE tickwork_queues SET paused = ?2 WHERE id = ?1
