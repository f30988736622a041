-- The slots between two instants that succeeded, at least in part.
SELECT DISTINCT slot FROM tickwork_firings
WHERE tenant = ?1 AND schedule_id = ?2 AND slot >= ?3 AND slot <= ?4
    AND status IN ('succeeded', 'partial')
