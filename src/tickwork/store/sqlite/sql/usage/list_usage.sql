-- What the tenants between two used from a time on and before another, in periods of some seconds; the newest first.
SELECT tenant, period / (?5 * 1000000) * (?5 * 1000000) AS period, measure, sum(amount) AS amount
FROM tickwork_usage
WHERE tenant BETWEEN ?1 AND ?2 AND period >= ?3 AND period < ?4
GROUP BY 1, 2, 3
ORDER BY 2 DESC, 1, 3
LIMIT ?6
