-- How many ready messages of a tenant a claim takes before one, up to a limit.
SELECT count(*) AS count FROM (
    SELECT 1 FROM tickwork_messages AS m
    WHERE m.queue_id = $1 AND m.tenant = $2 AND m.state = 'ready'
        AND (
            m.priority > $3
            AND m.visible_at <= (SELECT greatest(coalesce($4::timestamptz, clock_timestamp()), $5::timestamptz))
            OR m.priority = $3 AND (m.visible_at, m.id) < ($5, $6::uuid)
        )
    LIMIT $7
) AS ahead
