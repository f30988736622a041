-- The records of a slot, and the skipped runs that cover it.
SELECT * FROM (
    SELECT /*firing*/ FROM tickwork_firings AS f INDEXED BY tickwork_firings_slot
    WHERE tenant = ?1 AND schedule_id = ?2 AND slot = ?3
    LIMIT ?4
)
UNION ALL
SELECT * FROM (
    SELECT /*firing*/ FROM tickwork_firings AS f INDEXED BY tickwork_firings_runs
    WHERE tenant = ?1 AND schedule_id = ?2 AND last_slot >= ?3 AND slot < ?3 AND last_slot IS NOT NULL
    LIMIT ?4
)
