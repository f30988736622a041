-- Deletes what is still held by exactly this claim, and remembers its event; of two with one
-- event a single one is fresh. Rows that are not returned were not held.
WITH gone AS (
    DELETE FROM tickwork_messages AS m
    USING (
        -- One probe of the key per row, whatever the planner believes about the table.
        SELECT found.at, held.claim, held.holder
        FROM unnest($2::text[], $3::uuid[], $4::bigint[], $5::uuid[])
            AS held (tenant, id, claim, holder)
        CROSS JOIN LATERAL (
            SELECT ctid AS at FROM tickwork_messages WHERE tenant = held.tenant AND id = held.id LIMIT 1
        ) AS found
    ) AS held
    WHERE m.ctid = held.at AND m.claim = held.claim AND m.holder = held.holder
    RETURNING m.tenant, m.id, m.claim, m.holder, m.queue_id, m.event_id
),
remembered AS (
    INSERT INTO tickwork_events_done (tenant, queue_id, event_id, done_at)
    SELECT DISTINCT tenant, queue_id, event_id, coalesce($1::timestamptz, statement_timestamp())
    FROM gone WHERE event_id IS NOT NULL
    ORDER BY tenant, queue_id, event_id
    ON CONFLICT DO NOTHING
    RETURNING tenant, queue_id, event_id
)
SELECT tenant, id, claim, holder, true AS fresh FROM gone WHERE event_id IS NULL
UNION ALL
SELECT
    gone.tenant, gone.id, gone.claim, gone.holder,
    remembered.event_id IS NOT NULL
        AND row_number() OVER (
            PARTITION BY gone.tenant, gone.queue_id, gone.event_id ORDER BY gone.id
        ) = 1
FROM gone LEFT JOIN remembered USING (tenant, queue_id, event_id)
WHERE gone.event_id IS NOT NULL
