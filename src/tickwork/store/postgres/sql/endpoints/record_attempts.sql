-- Records attempts under claims that are still valid, with the next numbers, and shows them on their
-- deliveries. An attempt without a delivery is not stored. Returns the valid claims by their numbers in the list,
-- whether each attempt is new, and the time.
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
held AS MATERIALIZED (
    SELECT given.*
    FROM unnest(
        $2::text[], $3::uuid[], $4::bigint[], $5::uuid[], $6::uuid[], $7::float8[], $8::integer[],
        $9::text[], $10::text[], $11::text[]
    ) WITH ORDINALITY AS given (
        tenant, message_id, claim, holder, delivery_id, took_seconds, code, kind, error, excerpt, position
    )
    CROSS JOIN LATERAL (
        -- Locked, so that the claim stays valid until the commit. IS NOT DISTINCT FROM keeps the planner from
        -- searching by holder, which may match very many rows.
        SELECT 1 FROM tickwork_messages AS m
        WHERE m.tenant = given.tenant AND m.id = given.message_id
            AND (m.claim, m.holder) IS NOT DISTINCT FROM (given.claim, given.holder)
        FOR SHARE
    ) AS found
),
numbered AS MATERIALIZED (
    SELECT held.*,
        d.attempts + row_number() OVER (PARTITION BY held.delivery_id ORDER BY held.position) AS number
    FROM held
    CROSS JOIN LATERAL (
        SELECT attempts FROM tickwork_deliveries
        WHERE id = held.delivery_id AND tenant = held.tenant
        LIMIT 1
    ) AS d
),
recorded AS (
    INSERT INTO tickwork_delivery_attempts (
        delivery_id, message_id, claim, at, took_seconds, number, code, kind, error, excerpt
    )
    SELECT
        delivery_id, message_id, claim, moment.now - make_interval(secs => took_seconds), took_seconds,
        number, code, kind, error, excerpt
    FROM moment, numbered
    ON CONFLICT DO NOTHING
    RETURNING delivery_id, message_id, claim, number, at, code, kind, error
),
shown AS (
    UPDATE tickwork_deliveries AS d
    SET attempts = d.attempts + last.attempts, last_attempt_at = last.at, last_code = last.code,
        last_error = last.error,
        delivered_at = coalesce(d.delivered_at, CASE WHEN last.is_delivered THEN coalesce(d.arrived_at, last.now) END),
        dead_at = CASE WHEN NOT last.is_delivered THEN d.dead_at END
    FROM (
        SELECT DISTINCT ON (delivery_id) recorded.*, moment.now,
            count(*) OVER (PARTITION BY delivery_id) AS attempts,
            bool_or(kind IS NULL) OVER (PARTITION BY delivery_id) AS is_delivered
        FROM moment, recorded
        ORDER BY delivery_id, number DESC
    ) AS last
    WHERE d.id = last.delivery_id
)
SELECT held.position, held.delivery_id IS NULL OR recorded.number IS NOT NULL AS is_new, moment.now
FROM moment CROSS JOIN held
LEFT JOIN recorded USING (delivery_id, message_id, claim)
ORDER BY held.position
