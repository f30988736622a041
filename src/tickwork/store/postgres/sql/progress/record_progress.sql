-- Records progress of messages that are still claimed by exactly this claim, and keeps the claims. A row of the
-- same name is replaced. Returns the numbers of the claims that are valid.
WITH held AS MATERIALIZED (
    SELECT given.number, given.tenant
    FROM unnest($2::text[], $3::uuid[], $4::bigint[], $5::uuid[])
        WITH ORDINALITY AS given (tenant, id, claim, holder, number)
    CROSS JOIN LATERAL (
        -- The lock keeps the claim until the rows are committed.
        SELECT 1 FROM tickwork_messages AS m
        WHERE m.tenant = given.tenant AND m.id = given.id
            AND (m.claim, m.holder) IS NOT DISTINCT FROM (given.claim, given.holder)
        LIMIT 1
        FOR SHARE
    ) AS m
),
recorded AS (
    INSERT INTO tickwork_progress (tenant, work, name, value, recorded_at)
    SELECT DISTINCT ON (held.tenant, each.work, each.name)
        held.tenant, each.work, each.name, each.value, coalesce($1::timestamptz, clock_timestamp())
    FROM unnest($6::bigint[], $7::text[], $8::text[], $9::text[])
        AS each (number, work, name, value)
    JOIN held USING (number)
    -- In a fixed order, so that concurrent transactions do not deadlock.
    ORDER BY held.tenant, each.work, each.name, held.number DESC
    ON CONFLICT (tenant, work, name)
        DO UPDATE SET value = excluded.value, recorded_at = excluded.recorded_at
)
SELECT number FROM held
