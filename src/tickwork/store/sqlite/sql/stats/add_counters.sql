-- Adds to the counters of a queue for a minute.
INSERT INTO tickwork_tallies (queue_id, tenant, minute, passing, type, source, messages)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT DO UPDATE SET messages = messages + excluded.messages
