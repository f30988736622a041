-- Deletes what is still held by exactly this claim, and remembers its event; of two with one
-- event a single one is fresh. Rows that are not returned were not held.
WITH gone AS (
    DELETE FROM messages AS m
    USING unnest($2::text[], $3::uuid[], $4::bigint[], $5::uuid[])
        AS held (tenant, id, claim, holder)
    WHERE m.tenant = held.tenant AND m.id = held.id AND m.claim = held.claim
        AND m.holder = held.holder AND m.state = 'claimed'
    RETURNING m.tenant, m.id, m.queue_id, m.event_id
),
remembered AS (
    INSERT INTO events_done (tenant, queue_id, event_id, done_at)
    SELECT DISTINCT tenant, queue_id, event_id, coalesce($1::timestamptz, statement_timestamp())
    FROM gone WHERE event_id IS NOT NULL
    ORDER BY tenant, queue_id, event_id
    ON CONFLICT DO NOTHING
    RETURNING tenant, queue_id, event_id
)
SELECT
    gone.tenant, gone.id,
    gone.event_id IS NULL OR (
        remembered.event_id IS NOT NULL
        AND row_number() OVER (
            PARTITION BY gone.tenant, gone.queue_id, gone.event_id ORDER BY gone.id
        ) = 1
    ) AS fresh
FROM gone LEFT JOIN remembered USING (tenant, queue_id, event_id)
