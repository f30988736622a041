-- Of the given messages, deletes those that no worker has claimed, for a reason.
WITH gone AS (
    DELETE FROM tickwork_messages AS m
    USING (
        SELECT found.at
        FROM unnest($2::text[], $3::uuid[]) AS given (tenant, id)
        CROSS JOIN LATERAL (
            SELECT ctid AS at FROM tickwork_messages WHERE tenant = given.tenant AND id = given.id LIMIT 1
        ) AS found
    ) AS given
    WHERE m.ctid = given.at AND m.state <> 'claimed'
    RETURNING /*removed_message*/
),
/*discarded $4*/,
/*history of ended*/
SELECT
    tenant, queue_id, type, source, id, key, batch_id,
    CASE WHEN queue_id IN (SELECT id FROM tickwork_queues WHERE is_capped) THEN octet_length(body) END AS bytes,
    claimed_at, attempts
FROM gone
