-- The counters of a queue for the last minutes, for one tenant or all.
SELECT minute, passing, sum(messages)::bigint AS messages
FROM tickwork_tallies
WHERE queue_id = $2 AND ($3::text IS NULL OR tenant = $3)
    AND minute > coalesce($1::timestamptz, clock_timestamp()) - make_interval(mins => $4)
GROUP BY minute, passing
ORDER BY minute, passing
