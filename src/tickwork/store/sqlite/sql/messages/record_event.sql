-- Records an event as done, unless it is recorded already.
INSERT INTO tickwork_events_done (tenant, queue_id, event_id, done_at) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT DO NOTHING
