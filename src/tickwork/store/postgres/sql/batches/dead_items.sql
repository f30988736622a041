-- The attempts and errors of items that are open dead letters, of those that died in a span of time and whose
-- ids are in a range. The latest death of an item is the last row.
SELECT message_id, attempts, error FROM tickwork_dead_letters
WHERE queue_id = $1 AND tenant = $2 AND batch_id = $3 AND resolution IS NULL
    AND failed_at BETWEEN $4 AND $5 AND message_id BETWEEN $6 AND $7
ORDER BY failed_at, id
