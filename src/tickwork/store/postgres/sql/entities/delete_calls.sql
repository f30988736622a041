-- Of the given direct calls, deletes those in one of the given states.
DELETE FROM tickwork_messages AS m
USING (
    SELECT found.at
    FROM unnest($1::text[], $2::uuid[]) AS given (tenant, id)
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_messages WHERE tenant = given.tenant AND id = given.id LIMIT 1
    ) AS found
) AS given
WHERE m.ctid = given.at AND m.caller IS NOT NULL AND m.state = ANY ($3::text[])
RETURNING m.tenant, m.queue_id, m.type, m.source, m.id, m.key, m.batch_id,
    CASE WHEN m.queue_id IN (SELECT id FROM tickwork_queues WHERE is_capped) THEN octet_length(m.body) END
        AS bytes, m.claimed_at, m.attempts
