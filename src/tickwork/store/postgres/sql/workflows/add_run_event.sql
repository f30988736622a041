-- Adds an event to a run, unless it has one with this id.
INSERT INTO tickwork_run_events (uid, number, type, id, data, sent_at)
VALUES ($2, $3, $4, $5, $6, coalesce($1::timestamptz, clock_timestamp()))
ON CONFLICT DO NOTHING
