-- Completes batches whose items have all ended, each once; returns those it completed.
WITH taken AS MATERIALIZED (
    -- In the given order, so that concurrent transactions do not deadlock.
    SELECT given.tenant, given.id
    FROM unnest($2::text[], $3::uuid[]) AS given (tenant, id)
    CROSS JOIN LATERAL (
        SELECT FROM tickwork_batches
        WHERE tenant = given.tenant AND id = given.id AND completed_at IS NULL
        FOR UPDATE
    ) AS open
)
UPDATE tickwork_batches AS b
SET completed_at = coalesce($1::timestamptz, clock_timestamp())
FROM taken
WHERE b.tenant = taken.tenant AND b.id = taken.id AND b.completed_at IS NULL
RETURNING b.tenant, b.id
