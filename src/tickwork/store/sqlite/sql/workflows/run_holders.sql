-- The node that has claimed the message of a run.
SELECT id, holder FROM tickwork_messages
WHERE tenant = ?1 AND id = ?2 AND state = 'claimed' AND holder IS NOT NULL
