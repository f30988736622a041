-- How many messages of a queue are in each state, for one tenant or all, and since when the oldest visible
-- one is visible. Reads the rows of claimed messages, and for the others only indexes. (Every text sorts
-- before an empty blob.)
SELECT
    ready.visible,
    ready.delayed,
    (
        SELECT count(*) FROM tickwork_messages INDEXED BY tickwork_messages_holder
        WHERE queue_id = ?1 AND state = 'claimed'
            AND tenant >= coalesce(?2, '') AND tenant <= coalesce(?2, x'')
    ) AS claimed,
    (
        SELECT count(*) FROM tickwork_messages
        WHERE queue_id = ?1 AND state = 'held'
            AND tenant >= coalesce(?2, '') AND tenant <= coalesce(?2, x'')
    ) AS held,
    (
        SELECT count(*) FROM tickwork_dead_letters
        WHERE queue_id = ?1 AND resolution IS NULL
            AND tenant >= coalesce(?2, '') AND tenant <= coalesce(?2, x'')
    ) AS dead,
    ready.oldest
FROM (
    SELECT
        count(*) FILTER (WHERE visible_at <= ?3) AS visible,
        count(*) FILTER (WHERE visible_at > ?3) AS delayed,
        min(visible_at) FILTER (WHERE visible_at <= ?3) AS oldest
    FROM tickwork_messages
    WHERE queue_id = ?1 AND state = 'ready'
        AND tenant >= coalesce(?2, '') AND tenant <= coalesce(?2, x'')
) AS ready
