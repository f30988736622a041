-- Deletes audit records past their retention, the oldest first.
DELETE FROM tickwork_audit WHERE id IN (
    SELECT id FROM tickwork_audit WHERE at <= ?1 ORDER BY at LIMIT ?2
)
