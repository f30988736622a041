-- How many ready deliveries to the receiver of one stand before it, up to a limit, and how many are under way.
SELECT (
    SELECT count(*) FROM (
        SELECT 1 FROM tickwork_messages AS m
        WHERE m.queue_id = $1 AND m.tenant = $2 AND m.receiver = $3 AND m.state = 'ready'
            AND (
                m.priority > $4
                AND m.visible_at <= (SELECT greatest(coalesce($5::timestamptz, clock_timestamp()), $6::timestamptz))
                OR m.priority = $4 AND (m.visible_at, m.id) < ($6, $7::uuid)
            )
        LIMIT $8
    ) AS before
) AS ahead, (
    SELECT count(*) FROM tickwork_messages AS m
    -- IS NOT DISTINCT FROM keeps the planner from reading all messages of the tenant: few are claimed.
    WHERE m.holder IN (SELECT id FROM tickwork_nodes) AND m.state = 'claimed'
        AND (m.queue_id, m.tenant, m.receiver) IS NOT DISTINCT FROM ($1::uuid, $2::text, $3::text)
) AS under_way
