-- The next ready messages, oldest visible first.
SELECT /*columns*/ FROM tickwork_messages AS m
WHERE m.queue_id = $2 AND m.state = 'ready' AND ($3::text IS NULL OR m.tenant = $3)
    AND m.visible_at <= (SELECT coalesce($1::timestamptz, clock_timestamp()))
ORDER BY m.priority DESC, m.visible_at, m.id
LIMIT $4
