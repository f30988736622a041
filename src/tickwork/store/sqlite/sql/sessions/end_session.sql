-- Ends a session.
DELETE FROM tickwork_sessions WHERE id = ?1
