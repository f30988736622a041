-- What a queue keeps: its name, of which messages, for how many seconds, and whether with bodies.
SELECT
    q.name,
    coalesce(
        q.settings ->> 'history',
        CASE
            WHEN meta.history = 'all' AND q.name IN (/*hidden_queues*/) THEN 'failures'
            ELSE meta.history
        END
    ),
    coalesce(q.settings ->> 'history_seconds', meta.history_seconds),
    coalesce(q.settings ->> 'history_bodies', 0)
FROM tickwork_queues AS q CROSS JOIN tickwork_meta AS meta
WHERE q.id = ?1
