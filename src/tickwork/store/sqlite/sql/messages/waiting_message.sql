-- One message that no worker has claimed, with its key: of one tenant, or of any tenant for the system.
SELECT m.tenant, m.queue_id, m.id, m.key FROM tickwork_messages AS m
WHERE m.tenant IN (SELECT id FROM tickwork_tenants WHERE ?3 IS NULL OR id = ?3)
    AND m.id = ?2 AND m.queue_id = ?1 AND m.state <> 'claimed'
