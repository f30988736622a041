-- The recent counters of a queue by type and source, for one tenant or all.
SELECT nullif(type, '') AS type, nullif(source, '') AS source, passing,
    sum(messages)::bigint AS messages
FROM tickwork_tallies
WHERE queue_id = $2 AND ($3::text IS NULL OR tenant = $3)
    AND minute > coalesce($1::timestamptz, clock_timestamp()) - make_interval(secs => $4)
GROUP BY tickwork_tallies.type, tickwork_tallies.source, passing
ORDER BY tickwork_tallies.type, tickwork_tallies.source, passing
