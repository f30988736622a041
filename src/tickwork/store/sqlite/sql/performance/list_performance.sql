-- Rows of a tenant and width from a time on and before another, of a queue and type or of all; the newest first.
SELECT period, queue, type, done, failed, discarded, waits, runs FROM tickwork_performance
WHERE tenant = ?1 AND width = ?2 AND period >= ?3 AND period < ?4 AND (?5 IS NULL OR queue = ?5)
    AND (?6 IS NULL OR type = ?6)
ORDER BY period DESC, queue, type
LIMIT ?7
