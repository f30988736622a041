-- Lets the earliest message of each key go, if it was held; forgets keys that have none.
WITH head AS MATERIALIZED (
    SELECT freed.tenant, freed.queue_id, freed.key, first.at, first.state
    FROM unnest($2::text[], $3::uuid[], $4::text[]) AS freed (tenant, queue_id, key)
    LEFT JOIN LATERAL (
        SELECT ctid AS at, state FROM tickwork_messages
        WHERE queue_id = freed.queue_id AND tenant = freed.tenant AND key = freed.key
        ORDER BY place
        LIMIT 1
    ) AS first ON true
),
emptied AS (
    DELETE FROM tickwork_keys AS known USING head
    WHERE head.at IS NULL AND known.tenant = head.tenant AND known.queue_id = head.queue_id
        AND known.key = head.key
)
UPDATE tickwork_messages AS m
SET state = 'ready', visible_at = greatest(m.visible_at, coalesce($1::timestamptz, clock_timestamp()))
WHERE m.ctid = ANY (ARRAY (SELECT at FROM head WHERE state = 'held')) AND m.state = 'held'
RETURNING m.queue_id
