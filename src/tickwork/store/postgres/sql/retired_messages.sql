-- Takes from some lanes what waited longer than its queue keeps it, for the reaper to bury.
WITH picked AS MATERIALIZED (
    SELECT old.at
    FROM tickwork_queues AS q, unnest($4::text[], $5::smallint[]) AS lane (tenant, priority)
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_messages
        WHERE queue_id = $2 AND state = 'ready' AND tenant = lane.tenant
            AND priority = lane.priority
            AND visible_at <= (SELECT coalesce($1::timestamptz, clock_timestamp()))
                - make_interval(secs => q.retention_seconds)
        ORDER BY visible_at, id
        LIMIT $6
        FOR UPDATE SKIP LOCKED
    ) AS old
    WHERE q.id = $2
    LIMIT $6
)
UPDATE tickwork_messages AS m SET state = 'claimed', claim = m.claim + 1, holder = $3
WHERE m.ctid = ANY (ARRAY (SELECT at FROM picked))
RETURNING m.tenant, m.id, m.claim, m.holder
