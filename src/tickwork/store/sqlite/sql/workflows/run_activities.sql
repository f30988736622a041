-- The node that has claimed the message of a run, and what the run waits for if none has.
SELECT r.uid, CASE WHEN m.state = 'claimed' THEN m.holder END AS holder, /*run_wait ?1*/ AS wait
FROM tickwork_runs AS r JOIN tickwork_messages AS m ON m.tenant = r.tenant AND m.id = r.message_id
WHERE r.tenant = ?2 AND r.uid = ?3
