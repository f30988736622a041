-- How many messages of a queue stand where, for one tenant or all; read from indexes alone.
SELECT
    ready.visible,
    ready.delayed,
    (
        SELECT count(*) FROM tickwork_messages
        WHERE queue_id = ?1 AND state = 'claimed' AND (?2 IS NULL OR tenant = ?2)
    ) AS claimed,
    (
        SELECT count(*) FROM tickwork_messages
        WHERE queue_id = ?1 AND state = 'held' AND key IS NOT NULL
            AND (?2 IS NULL OR tenant = ?2)
    ) AS held,
    (
        SELECT count(*) FROM tickwork_dead_letters
        WHERE queue_id = ?1 AND (?2 IS NULL OR tenant = ?2) AND resolution IS NULL
    ) AS dead
FROM (
    SELECT
        count(*) FILTER (WHERE visible_at <= ?3) AS visible,
        count(*) FILTER (WHERE visible_at > ?3) AS delayed
    FROM tickwork_messages
    WHERE queue_id = ?1 AND state = 'ready' AND (?2 IS NULL OR tenant = ?2)
) AS ready
