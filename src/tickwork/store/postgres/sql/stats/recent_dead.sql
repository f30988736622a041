-- How many messages of a queue died recently, by type, for one tenant or all.
SELECT nullif(type, '') AS type, sum(messages)::bigint AS messages
FROM tickwork_tallies
WHERE queue_id = $2 AND passing = 'dead' AND ($3::text IS NULL OR tenant = $3)
    AND minute > coalesce($1::timestamptz, clock_timestamp()) - make_interval(secs => $4)
GROUP BY tickwork_tallies.type
ORDER BY tickwork_tallies.type
