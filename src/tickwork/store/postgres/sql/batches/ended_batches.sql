-- Of the given batches, those whose items have all ended and that are not completed yet.
SELECT b.tenant, b.id, b.completion_queue, b.run_id, b.total, ended.completed, ended.failed
FROM unnest($1::text[], $2::uuid[]) AS given (tenant, id)
CROSS JOIN LATERAL (
    SELECT tenant, id, completion_queue, run_id, total FROM tickwork_batches
    WHERE tenant = given.tenant AND id = given.id AND total IS NOT NULL AND completed_at IS NULL
    LIMIT 1
) AS b
CROSS JOIN LATERAL (
    SELECT coalesce(sum(completed), 0) AS completed, coalesce(sum(failed), 0) AS failed
    FROM tickwork_batch_counts
    WHERE tenant = given.tenant AND batch_id = given.id
) AS ended
WHERE ended.completed + ended.failed >= b.total
