-- Stores messages without a key of one tenant in one queue, each once.
INSERT INTO tickwork_messages (
    tenant, queue_id, sent_at, batch_id, visible_at, expires_at, /*sent*/
)
VALUES /*each*/ (?1, ?2, ?3, ?4, ?3 + ?, ?3 + ?, /*sent_values*/) /*each*/
ON CONFLICT DO NOTHING
