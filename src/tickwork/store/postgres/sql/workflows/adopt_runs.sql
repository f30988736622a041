-- Stores runs for messages that are still claimed by exactly these claims, except for those whose id exists. Returns
-- the numbers of the valid claims.
WITH held AS MATERIALIZED (
    SELECT new.*
    FROM unnest(
        $2::text[], $3::uuid[], $4::bigint[], $5::uuid[], $6::text[], $7::uuid[], $8::text[], $9::text[], $10::text[],
        $11::bytea[], $12::text[], $13::text[]
    ) WITH ORDINALITY AS new (
        tenant, message_id, claim, holder, id, uid, workflow, version, correlation_id, params, parent_id, parent_step,
        number
    )
    CROSS JOIN LATERAL (
        SELECT 1 FROM tickwork_messages AS m
        WHERE m.tenant = new.tenant AND m.id = new.message_id
            AND (m.claim, m.holder) IS NOT DISTINCT FROM (new.claim, new.holder)
        LIMIT 1
        FOR SHARE
    ) AS m
),
made AS (
    INSERT INTO tickwork_runs (
        tenant, id, uid, message_id, workflow, version, status, correlation_id, created_at, params, parent_id, parent_step
    )
    SELECT
        tenant, id, uid, message_id, workflow, version, 'running', correlation_id,
        coalesce($1::timestamptz, clock_timestamp()), params, parent_id, parent_step
    FROM held
    -- In a fixed order, so that concurrent transactions do not deadlock.
    ORDER BY tenant, id
    ON CONFLICT (tenant, id) DO NOTHING
)
SELECT number FROM held
