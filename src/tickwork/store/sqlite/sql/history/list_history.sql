-- Records of a tenant before a position, newest first: of the chunks from a time on.
SELECT * FROM (
    SELECT c.tenant, c.queue, c.node, c.ended_at, /*ended*/
    FROM tickwork_message_history AS c CROSS JOIN json_each(c.records) AS r
    WHERE c.tenant = ?1 AND c.ended_at <= ?2 AND c.ended_at >= ?4 AND (?5 IS NULL OR c.queue = ?5)
)
WHERE (ended_at, id) < (?2, hex(?3)) AND (?6 IS NULL OR type = ?6) AND (?7 IS NULL OR outcome = ?7) AND (?8 IS NULL OR batch_id = hex(?8))
ORDER BY ended_at DESC, id DESC
LIMIT ?9
