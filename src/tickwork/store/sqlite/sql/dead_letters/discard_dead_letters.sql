-- Resolves an open dead letter without sending it again.
UPDATE tickwork_dead_letters SET resolution = 'discarded', resolved_at = ?1
WHERE tenant = ?2 AND id = ?3 AND resolution IS NULL
RETURNING tenant, type, source
