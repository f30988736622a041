-- When the next batch of an operation is due.
SELECT due_at FROM tickwork_operations
WHERE finished_at IS NULL AND state <> 'waiting'
ORDER BY due_at
LIMIT 1
