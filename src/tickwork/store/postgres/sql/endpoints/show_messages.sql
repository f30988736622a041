-- Makes messages that wait visible after some seconds, unless they wait for their completion. Returns their queues.
-- (IS NOT DISTINCT FROM keeps the planner from reading all messages that wait.)
UPDATE tickwork_messages AS m SET visible_at = given.visible_at
FROM (
    SELECT found.at, coalesce($1::timestamptz, clock_timestamp()) + make_interval(secs => given.seconds) AS visible_at
    FROM unnest($2::text[], $3::uuid[], $4::float8[]) AS given (tenant, id, seconds)
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_messages WHERE tenant = given.tenant AND id = given.id LIMIT 1
    ) AS found
) AS given
WHERE m.ctid = given.at AND m.state IS NOT DISTINCT FROM 'ready'
    AND coalesce(m.last_error, '') NOT LIKE /*waiting_since*/
RETURNING m.queue_id
