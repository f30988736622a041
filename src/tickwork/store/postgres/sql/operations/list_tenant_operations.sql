-- The operations of a tenant, the newest first, before one of them; with `$3` only those that are not finished.
SELECT /*operation*/ FROM tickwork_operations AS o
WHERE o.tenant = $1 AND o.id < $2 AND (NOT $3::boolean OR o.finished_at IS NULL)
ORDER BY o.id DESC LIMIT $4
