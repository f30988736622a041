-- The counters of a queue by minute.
SELECT minute, passing, sum(messages) FROM tickwork_tallies
WHERE queue_id = ?1 AND minute > ?3 AND (?2 IS NULL OR tenant = ?2)
GROUP BY minute, passing
ORDER BY minute, passing
