-- One message of a queue, or of any queue. The system asks tenant by tenant.
SELECT /*columns*/ FROM tickwork_messages AS m
WHERE m.tenant IN (SELECT id FROM tickwork_tenants WHERE ?3 IS NULL OR id = ?3)
    AND m.id = ?2 AND (?1 IS NULL OR m.queue_id = ?1)
