-- Marks the undelivered deliveries of removed messages as dead, and those as delivered that arrived before they were
-- sent again. (coalesce keeps the planner from reading all that are
-- undelivered, IS NOT DISTINCT FROM from reading all of a tenant.)
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
first AS (
    -- The first message of a delivery has its id.
    UPDATE tickwork_deliveries AS d SET dead_at = moment.now
    FROM moment, unnest($2::text[], $3::uuid[]) AS gone (tenant, id)
    WHERE d.id = ANY ($3::uuid[]) AND d.id = gone.id AND d.tenant IS NOT DISTINCT FROM gone.tenant
        AND d.message_id = d.id AND coalesce(d.delivered_at, d.dead_at) IS NULL
)
UPDATE tickwork_deliveries AS d
SET delivered_at = d.arrived_at, dead_at = CASE WHEN d.arrived_at IS NULL THEN moment.now END
FROM moment, unnest($2::text[], $3::uuid[]) AS gone (tenant, id)
WHERE d.message_id = ANY ($3::uuid[]) AND d.message_id = gone.id AND d.tenant IS NOT DISTINCT FROM gone.tenant
    AND d.message_id <> d.id AND coalesce(d.delivered_at, d.dead_at) IS NULL
