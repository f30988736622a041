-- Deletes a step of a run: a compensation, or one that it has undone.
DELETE FROM tickwork_run_steps WHERE uid = ?1 AND key = ?2
