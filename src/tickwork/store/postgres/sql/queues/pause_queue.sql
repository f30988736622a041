-- Stops or resumes handing out.
UPDATE tickwork_queues SET paused = $2 WHERE id = $1
