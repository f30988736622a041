-- The runs of skipped slots that start before an instant and cover it.
SELECT /*firing*/ FROM tickwork_firings AS f
WHERE tenant = ?1 AND schedule_id = ?2 AND last_slot >= ?3 AND slot < ?3 AND last_slot IS NOT NULL
