-- Records of a tenant before a position, newest first: of the chunks with a mark.
SELECT * FROM (
    SELECT c.tenant, c.queue, c.node, c.ended_at, /*ended*/
    FROM (/*marked_chunks ?10*/) AS found
    CROSS JOIN tickwork_message_history AS c ON c.place = found.place
    CROSS JOIN json_each(c.records) AS r
    WHERE c.tenant = ?1 AND c.ended_at <= ?2 AND c.ended_at >= ?4 AND (?5 IS NULL OR c.queue = ?5)
)
WHERE (ended_at, id) < (?2, hex(?3)) AND (?6 IS NULL OR type = ?6) AND (?7 IS NULL OR outcome = ?7) AND (?8 IS NULL OR batch_id = hex(?8))
    AND (?11 IS NULL OR key = ?11) AND (?12 IS NULL OR event_id = ?12) AND (?13 IS NULL OR correlation_id = ?13)
ORDER BY ended_at DESC, id DESC
LIMIT ?9
