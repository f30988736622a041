-- Stores messages that have nothing but a body, each once: two values a message, not eighteen.
INSERT INTO tickwork_messages (tenant, queue_id, sent_at, visible_at, id, body)
VALUES /*each*/ (?1, ?2, ?3, ?3, ?, ?) /*each*/
ON CONFLICT DO NOTHING
