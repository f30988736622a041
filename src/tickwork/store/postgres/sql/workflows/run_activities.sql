-- The nodes that have claimed the messages of runs, and what the runs wait for that none has.
SELECT r.uid, CASE WHEN m.state = 'claimed' THEN m.holder END AS holder, /*run_wait $1*/ AS wait
FROM unnest($3::uuid[]) AS asked (uid)
CROSS JOIN LATERAL (SELECT * FROM tickwork_runs WHERE tenant = $2 AND uid = asked.uid LIMIT 1) AS r
CROSS JOIN LATERAL (
    SELECT * FROM tickwork_messages WHERE tenant = r.tenant AND id = r.message_id LIMIT 1
) AS m
