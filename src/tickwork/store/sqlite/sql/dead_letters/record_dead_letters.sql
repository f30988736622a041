-- Copies a message to the dead letters, with its reason.
INSERT INTO tickwork_dead_letters (
    id, tenant, queue_id, message_id, reason, error, fingerprint, attempts, failed_at, /*kept*/
)
SELECT
    ?2, tenant, queue_id, id, ?3, coalesce(?4, last_error), ?5, attempts + ?6, ?7, /*kept*/
FROM tickwork_messages WHERE place = ?1
