-- The counters of a queue by type and source.
SELECT type, source, passing, sum(messages) FROM tickwork_tallies
WHERE queue_id = ?1 AND minute > ?3 AND (?2 IS NULL OR tenant = ?2)
GROUP BY type, source, passing
ORDER BY type, source, passing
