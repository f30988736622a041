-- A batch and its progress, from one snapshot.
SELECT b.tenant, b.id, b.queue_id, b.stored, b.total, b.created_at, b.completed_at,
    counts.completed, counts.failed,
    CASE WHEN b.completed_at IS NULL OR counts.completed + counts.failed < b.total THEN (
        SELECT count(*) FROM tickwork_messages
        WHERE tenant = $1 AND batch_id = $2 AND state = 'claimed'
    ) ELSE 0 END AS processing
FROM tickwork_batches AS b
CROSS JOIN LATERAL (
    SELECT coalesce(sum(completed), 0) AS completed, coalesce(sum(failed), 0) AS failed
    FROM tickwork_batch_counts
    WHERE tenant = $1 AND batch_id = $2
) AS counts
WHERE b.tenant = $1 AND b.id = $2
