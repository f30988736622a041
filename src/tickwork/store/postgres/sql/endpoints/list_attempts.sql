-- The attempts at a delivery in order, after a given number, all or the first ones.
SELECT /*attempt*/ FROM tickwork_delivery_attempts AS a
WHERE a.delivery_id = $1 AND a.number > $2
ORDER BY a.number
LIMIT $3
