-- Notes how messages of a queue fared that are acked: those among some rowids. It has the parameters of
-- `record_plain_history`: ?7 has how long their handlers ran, each with so many digits, or is empty.
INSERT INTO tickwork_ended_counts (ended_at, tenant, queue, type, done, failed, discarded, waits, runs)
SELECT
    ?1, ?3, ?4, type, count(*), 0, 0,
    json_group_array(max(started_at - visible_at, 0)), json_group_array(max(?1 - started_at, 0))
FROM (
    SELECT m.type, m.visible_at, /*plain_started_at*/ AS started_at
    FROM json_each(?6) AS seen CROSS JOIN tickwork_messages AS m ON m.place = seen.value
    WHERE m.queue_id = ?9
)
GROUP BY type
