-- Locks the endpoints whose health attempts may change: those with a failed one (a flag in `$2`), and those that are
-- not healthy. In a fixed order, so that concurrent transactions do not deadlock.
SELECT /*endpoint*/ FROM tickwork_endpoints AS e
WHERE e.id = ANY ($1::uuid[]) AND (
        e.failures_in_row > 0 OR ($2::boolean[])[array_position($1::uuid[], e.id)]
    )
ORDER BY e.id
FOR NO KEY UPDATE
