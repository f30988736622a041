-- The counters of each queue for the last minutes, for one tenant or all.
SELECT queue.id AS queue_id, t.minute, t.passing, sum(t.messages)::bigint AS messages
FROM unnest($2::uuid[]) AS queue (id)
-- OFFSET keeps the planner from joining in another order.
CROSS JOIN LATERAL (
    SELECT * FROM tickwork_tallies
    WHERE queue_id = queue.id AND ($3::text IS NULL OR tenant = $3)
        AND minute > coalesce($1::timestamptz, clock_timestamp()) - make_interval(mins => $4)
    OFFSET 0
) AS t
GROUP BY queue.id, t.minute, t.passing
ORDER BY t.minute, t.passing
