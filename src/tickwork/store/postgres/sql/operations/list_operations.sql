-- All operations, the newest first, before one of them; with `$2` only those that are not finished.
SELECT /*operation*/ FROM tickwork_operations AS o
WHERE o.id < $1 AND (NOT $2::boolean OR o.finished_at IS NULL)
ORDER BY o.id DESC LIMIT $3
