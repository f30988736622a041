-- How many messages of a queue died recently, by type, for one tenant or all.
SELECT type, sum(messages) FROM tickwork_tallies INDEXED BY tickwork_tallies_dead
WHERE queue_id = ?1 AND passing = 'dead' AND minute > ?3 AND (?2 IS NULL OR tenant = ?2)
GROUP BY type
ORDER BY type
