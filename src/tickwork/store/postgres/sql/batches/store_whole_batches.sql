-- Creates batches whose items are all sent at once, each unless it exists. Returns for each whether it is
-- new, or else whether it is the same: this queue, closed, as many items.
WITH given AS MATERIALIZED (
    SELECT * FROM unnest($2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::integer[])
        AS new (tenant, id, queue_id, completion_queue, total)
),
made AS (
    INSERT INTO tickwork_batches (
        tenant, id, queue_id, completion_queue, stored, total, created_at, filled_at
    )
    SELECT tenant, id, queue_id, completion_queue, total, total, now, now
    FROM given, (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
    ON CONFLICT (tenant, id) DO NOTHING
    RETURNING tenant, id
)
SELECT given.tenant, given.id, made.id IS NOT NULL AS is_new,
    known.queue_id = given.queue_id AND known.total = given.total AS is_same
FROM given
LEFT JOIN made USING (tenant, id)
LEFT JOIN tickwork_batches AS known USING (tenant, id)
