-- Deletes the events of a run that its steps have received, except for those whose id is remembered for a while.
DELETE FROM tickwork_run_events
WHERE uid = ?1 AND consumed_by IS NOT NULL AND (id IS NULL OR sent_at < ?2 - /*event_retention_seconds*/ * 1000000)
