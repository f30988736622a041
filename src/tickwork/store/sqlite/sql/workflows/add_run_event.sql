-- Adds an event to a run, unless it has one with this id.
INSERT INTO tickwork_run_events (sent_at, uid, number, type, id, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT DO NOTHING
