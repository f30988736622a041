-- How many messages of a queue stand where, for one tenant or all.
SELECT
    count(*) FILTER (WHERE state = 'ready' AND visible_at <= moment.now) AS ready,
    count(*) FILTER (WHERE state = 'ready' AND visible_at > moment.now) AS delayed,
    count(*) FILTER (WHERE state = 'claimed') AS claimed,
    count(*) FILTER (WHERE state = 'held') AS held,
    (
        SELECT count(*) FROM tickwork_dead_letters
        WHERE queue_id = $2 AND ($3::text IS NULL OR tenant = $3) AND resolution IS NULL
    ) AS dead
FROM tickwork_messages, (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
WHERE queue_id = $2 AND ($3::text IS NULL OR tenant = $3)
