-- Stores a mark of a chunk.
INSERT INTO tickwork_message_history_marks (drop_at, mark, place) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING
