-- Messages that were just released because their endpoints are disabled: makes those visible now whose endpoints are
-- not disabled any more. Returns their queues. The lock waits for a change of an endpoint that is under way, and a
-- later one waits for this transaction: then enabling finds the released message.
WITH disabled AS MATERIALIZED (
    SELECT id FROM tickwork_endpoints
    WHERE id = ANY ($4::uuid[]) AND disabled_at IS NOT NULL
    ORDER BY id
    FOR SHARE
)
UPDATE tickwork_messages AS m SET visible_at = coalesce($1::timestamptz, clock_timestamp())
FROM (
    -- One index lookup per row, whatever the planner's statistics. The release has locked the rows.
    SELECT found.at FROM unnest($2::text[], $3::uuid[], $4::uuid[]) AS given (tenant, id, endpoint_id)
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_messages WHERE tenant = given.tenant AND id = given.id LIMIT 1
    ) AS found
    WHERE given.endpoint_id NOT IN (SELECT id FROM disabled)
) AS given
WHERE m.ctid = given.at
RETURNING m.queue_id
