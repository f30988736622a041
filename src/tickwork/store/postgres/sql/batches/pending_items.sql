-- The items of a batch that no worker has claimed, by id, after a given one.
SELECT id, NULL::text AS reason, NULL::timestamptz AS ended_at, attempts, last_error AS error,
    NULL::timestamptz AS started_at
FROM tickwork_messages
WHERE tenant = $1 AND batch_id = $2
    AND id >= coalesce($3::uuid, '00000000-0000-0000-0000-000000000000')
    AND id IS DISTINCT FROM $3 AND state <> 'claimed'
ORDER BY id
LIMIT $4
