-- Resolves open dead letters without sending them again.
UPDATE tickwork_dead_letters SET resolution = 'discarded', resolved_at = ?2
WHERE place IN (SELECT value FROM json_each(?1)) AND resolution IS NULL
RETURNING queue_id, tenant, type, source
