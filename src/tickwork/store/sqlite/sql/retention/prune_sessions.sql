-- Deletes sessions that have expired, the oldest first.
DELETE FROM tickwork_sessions WHERE id IN (
    SELECT id FROM tickwork_sessions
    WHERE expires_at <= ?1
    ORDER BY expires_at
    LIMIT ?2
)
