-- The row of a period, as it is.
SELECT width, period, tenant, queue, type, done, failed, discarded, waits, runs FROM tickwork_performance
WHERE tenant = ?3 AND width = ?1 AND period = ?2 AND queue = ?4 AND type = ?5
