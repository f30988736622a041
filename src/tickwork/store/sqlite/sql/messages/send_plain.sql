-- Stores messages that have only a body, each once, with two parameters per message instead of nineteen.
INSERT INTO tickwork_messages (tenant, queue_id, sent_at, visible_at, batch_id, id, body)
VALUES /*each*/ (?1, ?2, ?3, ?3, ?4, ?, ?) /*each*/
ON CONFLICT DO NOTHING
