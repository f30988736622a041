-- Makes one waiting delivery visible now for each of at most `$3` endpoints whose breaker may be probed, and
-- remembers when it was due. It takes the one that was tried least recently, not the last one again if there is
-- another: a single bad message keeps no breaker open. Of the undelivered ones it looks at the `$4` oldest and the
-- `$4` newest, because many in between may be dead or blocked. The message that was pulled before and not sent goes
-- back to its own time, also while a dead node holds it, unless it was given another time since, such as by a resend. It looks again after `$5` seconds.
-- (IS NOT DISTINCT FROM keeps the planner from reading all deliveries of the tenant.)
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
due AS MATERIALIZED (
    SELECT id, tenant, probe_message_id, probe_back_at FROM tickwork_endpoints
    WHERE probe_at IS NOT NULL AND probe_at <= (SELECT now FROM moment)
    ORDER BY probe_at
    LIMIT $3
    FOR NO KEY UPDATE SKIP LOCKED
),
chosen AS MATERIALIZED (
    SELECT due.id AS endpoint_id, found.at, found.visible_at
    FROM due
    CROSS JOIN LATERAL (
        SELECT m.at, m.visible_at
        FROM (
            (
                SELECT id, message_id, published_at, last_attempt_at FROM tickwork_deliveries
                WHERE endpoint_id = due.id AND tenant IS NOT DISTINCT FROM due.tenant AND delivered_at IS NULL
                ORDER BY published_at, id
                LIMIT $4
            )
            UNION
            (
                SELECT id, message_id, published_at, last_attempt_at FROM tickwork_deliveries
                WHERE endpoint_id = due.id AND tenant IS NOT DISTINCT FROM due.tenant AND delivered_at IS NULL
                ORDER BY published_at DESC, id DESC
                LIMIT $4
            )
        ) AS d
        CROSS JOIN LATERAL (
            SELECT ctid AS at, queue_id, state, visible_at FROM tickwork_messages
            WHERE tenant = due.tenant AND id = d.message_id
            LIMIT 1
        ) AS m
        WHERE m.queue_id = (SELECT id FROM tickwork_queues WHERE tenant IS NULL AND name = $2)
            AND m.state = 'ready' AND m.visible_at > (SELECT now FROM moment)
        ORDER BY
            d.message_id IS NOT DISTINCT FROM due.probe_message_id, d.last_attempt_at NULLS FIRST,
            d.published_at, d.id
        LIMIT 1
    ) AS found
),
shown AS (
    UPDATE tickwork_messages AS m SET visible_at = (SELECT now FROM moment)
    FROM (
        SELECT chosen.endpoint_id, chosen.visible_at, m.ctid AS at
        FROM chosen JOIN tickwork_messages AS m ON m.ctid = chosen.at
        WHERE m.state IS NOT DISTINCT FROM 'ready' AND m.visible_at IS NOT DISTINCT FROM chosen.visible_at
        FOR UPDATE OF m SKIP LOCKED
    ) AS free
    WHERE m.ctid = free.at
    RETURNING free.endpoint_id, free.visible_at, m.id, m.queue_id
),
put_back AS (
    UPDATE tickwork_messages AS m SET visible_at = free.own_time
    FROM (
        SELECT found.at, due.probe_back_at AS own_time
        FROM due
        JOIN shown ON shown.endpoint_id = due.id AND shown.id <> due.probe_message_id
        CROSS JOIN LATERAL (
            SELECT ctid AS at FROM tickwork_messages
            WHERE tenant = due.tenant AND id = due.probe_message_id
                AND (visible_at < due.probe_back_at AND visible_at <= (SELECT now FROM moment)) IS NOT DISTINCT FROM true
            FOR UPDATE SKIP LOCKED
        ) AS found
    ) AS free
    WHERE m.ctid = free.at
)
UPDATE tickwork_endpoints AS e
SET probe_at = (SELECT now FROM moment) + make_interval(secs => $5),
    probe_message_id = coalesce(shown.id, e.probe_message_id),
    probe_back_at = coalesce(shown.visible_at, e.probe_back_at)
FROM due
LEFT JOIN chosen ON chosen.endpoint_id = due.id
LEFT JOIN shown ON shown.endpoint_id = due.id
WHERE e.id = due.id AND (chosen.endpoint_id IS NULL OR shown.id IS NOT NULL)
RETURNING shown.queue_id
