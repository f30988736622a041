-- Stops or resumes handing out.
UPDATE queues SET paused = ?2 WHERE id = ?1
