-- The records of some chunks whose time has come, with the places of these.
SELECT c.place, c.tenant, c.queue, c.node, c.ended_at, /*ended*/
FROM (SELECT * FROM tickwork_message_history WHERE drop_at <= ?1 ORDER BY drop_at LIMIT ?2) AS c
CROSS JOIN json_each(c.records) AS r
