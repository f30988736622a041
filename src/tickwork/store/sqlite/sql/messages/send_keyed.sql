-- Stores a message with a key (`?5`), once; it is blocked if there is an earlier one of its key.
INSERT INTO tickwork_messages (
    tenant, queue_id, sent_at, batch_id, state, visible_at, expires_at, /*sent*/
)
VALUES (
    ?1, ?2, ?3, ?4,
    CASE WHEN EXISTS (
        SELECT 1 FROM tickwork_messages WHERE queue_id = ?2 AND tenant = ?1 AND key = ?5
    ) THEN 'held' ELSE 'ready' END,
    ?3 + ?, ?3 + ?, /*sent_values*/
)
ON CONFLICT DO NOTHING
