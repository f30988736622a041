-- Counts items as ended. The ids are grouped by outcome, with a count for each. A transaction writes to one
-- stripe; concurrent transactions use others, since their numbers are consecutive.
WITH kind AS MATERIALIZED (
    SELECT * FROM unnest($3::text[], $4::uuid[], $5::text[], $6::text[], $7::integer[], $8::integer[])
        AS given (tenant, batch_id, status, reason, first, items)
),
kept AS (
    INSERT INTO tickwork_batch_items (tenant, batch_id, status, id, reason, ended_at, started_at, attempts)
    SELECT kind.tenant, kind.batch_id, kind.status, item.id, kind.reason,
        coalesce($1::timestamptz, statement_timestamp()), item.started_at, item.attempts
    FROM kind
    CROSS JOIN LATERAL unnest(
        ($2::uuid[])[kind.first : kind.first + kind.items - 1],
        ($9::timestamptz[])[kind.first : kind.first + kind.items - 1],
        ($10::integer[])[kind.first : kind.first + kind.items - 1]
    ) AS item (id, started_at, attempts)
    -- An id that was done and added to the batch again ends twice, but is listed as one item.
    ON CONFLICT DO NOTHING
)
INSERT INTO tickwork_batch_counts AS known (tenant, batch_id, stripe, completed, failed)
SELECT tenant, batch_id, pg_current_xact_id()::text::bigint % /*stripes*/,
    coalesce(sum(items) FILTER (WHERE status = 'completed'), 0),
    coalesce(sum(items) FILTER (WHERE status = 'failed'), 0)
FROM kind
GROUP BY tenant, batch_id
ORDER BY tenant, batch_id
ON CONFLICT (tenant, batch_id, stripe) DO UPDATE SET
    completed = known.completed + excluded.completed,
    failed = known.failed + excluded.failed
