-- How many messages of a queue are in each state, for one tenant or all. Each count reads its own index.
SELECT
    ready.visible AS ready,
    ready.delayed,
    (
        SELECT count(*) FROM tickwork_messages
        WHERE queue_id = $2 AND state = 'claimed' AND ($3::text IS NULL OR tenant = $3)
    ) AS claimed,
    (
        SELECT count(*) FROM tickwork_messages
        WHERE queue_id = $2 AND state = 'held' AND key IS NOT NULL
            AND ($3::text IS NULL OR tenant = $3)
    ) AS held,
    (
        SELECT count(*) FROM tickwork_dead_letters
        WHERE queue_id = $2 AND ($3::text IS NULL OR tenant = $3) AND resolution IS NULL
    ) AS dead
FROM (
    SELECT
        count(*) FILTER (WHERE visible_at <= moment.now) AS visible,
        count(*) FILTER (WHERE visible_at > moment.now) AS delayed
    FROM tickwork_messages, (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
    WHERE queue_id = $2 AND state = 'ready' AND ($3::text IS NULL OR tenant = $3)
) AS ready
