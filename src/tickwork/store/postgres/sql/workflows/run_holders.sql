-- The nodes that have claimed the messages of runs.
SELECT id, holder FROM tickwork_messages
WHERE tenant = $1 AND id = ANY ($2::uuid[]) AND state = 'claimed' AND holder IS NOT NULL
