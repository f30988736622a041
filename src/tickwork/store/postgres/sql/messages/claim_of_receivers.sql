-- Claims ready deliveries: each tenant's share in turn, of each receiver as many as its limits let go, oldest first.
-- Returns nothing unless the queue is open, and unless the claimer knows whether it has limits and has locked it if so.
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
node AS MATERIALIZED (
    -- Locked until the transaction ends, so that the node is not declared dead between this check and its claim.
    SELECT id FROM tickwork_nodes WHERE id = $3 AND expires_at > (SELECT now FROM moment) FOR KEY SHARE
),
open AS MATERIALIZED (
    SELECT id FROM tickwork_queues
    WHERE id = $2 AND NOT paused AND is_governed = $12
        AND ((SELECT $4::float8) IS NOT NULL OR EXISTS (SELECT FROM node))
),
picked AS MATERIALIZED (
    SELECT share.at
    FROM open
    CROSS JOIN unnest(
        (SELECT $5::text[]), (SELECT $6::integer[]), (SELECT $7::integer[]), (SELECT $8::integer[])
    ) AS turn (tenant, quota, first, last)
    CROSS JOIN LATERAL (
        SELECT CASE WHEN (SELECT $13::integer) IS NULL THEN turn.quota
            ELSE least(turn.quota, (SELECT $13::integer) - (
                SELECT count(*)::integer FROM tickwork_messages
                WHERE queue_id = $2 AND tenant = turn.tenant AND state = 'claimed' AND is_counted
            ))
        END AS quota
    ) AS room
    CROSS JOIN LATERAL (
        SELECT ready.at
        FROM generate_series(turn.first, turn.last) AS lane
        CROSS JOIN LATERAL (
            SELECT ctid AS at FROM tickwork_messages
            WHERE queue_id = (SELECT $2::uuid) AND state = 'ready' AND tenant = turn.tenant
                AND receiver = ($14::text[])[lane] AND priority = ($9::smallint[])[lane] AND visible_at <= (SELECT now FROM moment)
                AND visible_at >= ($10::timestamptz[])[lane] AND lost < /*lost_claims_separate*/ AND format <= /*format*/
                AND (expires_at IS NULL OR expires_at > (SELECT now FROM moment))
            ORDER BY visible_at, id
            LIMIT greatest(least(room.quota, ($15::integer[])[lane]), 0)
            FOR UPDATE SKIP LOCKED
        ) AS ready
        LIMIT greatest(room.quota, 0)
    ) AS share
    LIMIT (SELECT $11::bigint)
)
UPDATE tickwork_messages AS m
SET state = 'claimed', claim = m.claim + 1, holder = $3, is_counted = $13 IS NOT NULL,
    claimed_at = (SELECT now FROM moment), lease_until = (SELECT now FROM moment) + make_interval(secs => $4),
    catch_up = m.catch_up OR (/*on_time_until*/ < (SELECT now FROM moment)) IS TRUE
WHERE m.ctid = ANY (ARRAY (SELECT at FROM picked))
RETURNING /*columns*/, m.event_id IS NOT NULL AND (
    -- No EXISTS: planned while the table is small, it reads the whole table, and that plan is cached.
    SELECT true FROM tickwork_events_done AS done
    WHERE done.tenant = m.tenant AND done.queue_id = m.queue_id AND done.event_id = m.event_id
) IS TRUE AS is_done, m.ctid AS at
