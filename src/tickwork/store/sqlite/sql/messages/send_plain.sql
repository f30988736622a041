-- Stores messages that have nothing but a body, each once: two values a message, not seventeen.
INSERT INTO tickwork_messages (tenant, queue_id, sent_at, visible_at, batch_id, id, body)
VALUES /*each*/ (?1, ?2, ?3, ?3, ?4, ?, ?) /*each*/
ON CONFLICT DO NOTHING
