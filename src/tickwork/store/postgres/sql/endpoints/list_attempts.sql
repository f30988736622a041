-- The attempts at a delivery, in order.
SELECT /*attempt*/ FROM tickwork_delivery_attempts AS a WHERE a.delivery_id = $1 ORDER BY a.number
