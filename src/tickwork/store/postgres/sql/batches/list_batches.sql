-- The latest batches of a tenant and their progress, newest first, before a given one, from one
-- snapshot.
SELECT b.tenant, b.id, b.queue_id, b.stored, b.total, b.created_at, b.completed_at,
    counts.completed, counts.failed,
    CASE WHEN b.completed_at IS NULL OR counts.completed + counts.failed < b.total THEN (
        SELECT count(*) FROM tickwork_messages
        WHERE tenant = $1 AND batch_id = b.id AND state = 'claimed'
    ) ELSE 0 END AS processing
FROM (
    SELECT * FROM tickwork_batches
    WHERE tenant = $1 AND (created_at, id) < ($2, $3)
    ORDER BY created_at DESC, id DESC
    LIMIT $4
) AS b
CROSS JOIN LATERAL (
    SELECT coalesce(sum(completed), 0) AS completed, coalesce(sum(failed), 0) AS failed
    FROM tickwork_batch_counts
    WHERE tenant = $1 AND batch_id = b.id
) AS counts
ORDER BY b.created_at DESC, b.id DESC
