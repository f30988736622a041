-- Hands out ready messages of some lanes, in the lanes' order, each lane's oldest first.
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
node AS MATERIALIZED (
    -- Held until the end, so that a node cannot be taken for dead between its look and its claim.
    SELECT id FROM nodes WHERE id = $3 AND expires_at > (SELECT now FROM moment) FOR KEY SHARE
),
open AS MATERIALIZED (
    SELECT id FROM queues
    WHERE id = $2 AND NOT paused AND ($4::float8 IS NOT NULL OR EXISTS (SELECT FROM node))
),
picked AS MATERIALIZED (
    SELECT ready.at
    FROM open, unnest($5::text[], $6::smallint[], $7::integer[], $8::timestamptz[])
        AS lane (tenant, priority, quota, low_water)
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM messages
        WHERE queue_id = $2 AND state = 'ready' AND tenant = lane.tenant
            AND priority = lane.priority AND visible_at <= (SELECT now FROM moment)
            AND visible_at >= lane.low_water AND lost < 2
        ORDER BY visible_at, id
        LIMIT lane.quota
        FOR UPDATE SKIP LOCKED
    ) AS ready
    LIMIT $9
)
UPDATE messages AS m
SET state = 'claimed', claim = m.claim + 1, holder = $3,
    lease_until = (SELECT now FROM moment) + make_interval(secs => $4)
FROM picked
WHERE m.ctid = picked.at
RETURNING /*columns*/
