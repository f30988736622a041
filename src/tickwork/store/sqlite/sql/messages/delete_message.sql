-- Deletes a message that no worker has claimed.
DELETE FROM tickwork_messages
WHERE tenant IN (SELECT id FROM tickwork_tenants WHERE ?3 IS NULL OR id = ?3)
    AND id = ?2 AND queue_id = ?1 AND state <> 'claimed'
RETURNING /*removed*/
