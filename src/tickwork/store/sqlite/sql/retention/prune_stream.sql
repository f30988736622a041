-- Deletes system events of streams past their retention, the oldest first.
DELETE FROM tickwork_stream_events WHERE id IN (
    SELECT id FROM tickwork_stream_events WHERE at <= ?1 ORDER BY at LIMIT ?2
)
