-- The latest batches of a tenant and their progress, newest first, before a given one.
SELECT b.tenant, b.id, b.queue_id, b.stored, b.total, b.created_at, b.completed_at, b.completed, b.failed,
    (
        SELECT count(*) FROM tickwork_messages AS m
        WHERE m.tenant = b.tenant AND m.batch_id = b.id AND m.state = 'claimed'
    ) AS processing
FROM tickwork_batches AS b WHERE b.tenant = ?1 AND (b.created_at, b.id) < (?2, ?3)
ORDER BY b.created_at DESC, b.id DESC
LIMIT ?4
