-- Counts messages that are still claimed by exactly this claim, by kind: their number, their bytes, and how
-- many have a key, a batch or an event, and how many a correlation id. `?1` is a list of rowids, `?2` their concatenated ids. Sources that
-- are ids count as one kind, as in `Counters`.
SELECT m.queue_id, m.type,
    CASE WHEN m.source LIKE '________-____-____-____-____________' THEN '(id)' ELSE m.source END AS source,
    count(*), sum(length(m.body)),
    sum(m.key IS NOT NULL OR m.batch_id IS NOT NULL OR m.event_id IS NOT NULL),
    sum(m.correlation_id IS NOT NULL)
FROM json_each(?1) AS seen
CROSS JOIN tickwork_messages AS m ON m.place = seen.value
WHERE m.id = substr(?2, seen.key * 16 + 1, 16) AND m.tenant = ?3 AND m.claim = ?4 AND m.holder = ?5
    AND m.state = 'claimed'
GROUP BY 1, 2, 3
