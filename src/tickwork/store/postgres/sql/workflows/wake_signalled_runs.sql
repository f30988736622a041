-- Runs whose messages were just released to wait: clears their lost claims, and makes those visible now that have
-- other signals than their worker has seen. Returns the queues of the latter.
UPDATE tickwork_messages AS m
SET lost = 0,
    visible_at = CASE WHEN given.is_signalled
        THEN coalesce($1::timestamptz, clock_timestamp()) ELSE m.visible_at END
FROM (
    -- One index lookup per row, whatever the planner's statistics. The release has locked the rows.
    SELECT found.at, r.signals <> given.signals AS is_signalled
    FROM unnest($2::text[], $3::uuid[], $4::bigint[]) AS given (tenant, id, signals)
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_messages WHERE tenant = given.tenant AND id = given.id LIMIT 1
    ) AS found
    CROSS JOIN LATERAL (SELECT signals FROM tickwork_runs WHERE message_id = given.id LIMIT 1) AS r
) AS given
WHERE m.ctid = given.at AND (m.lost > 0 OR given.is_signalled)
RETURNING m.queue_id
