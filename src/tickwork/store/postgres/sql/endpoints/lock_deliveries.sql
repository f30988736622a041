-- Locks deliveries of one tenant or any. In a fixed order, so that concurrent transactions do not deadlock.
SELECT id FROM tickwork_deliveries
WHERE id = ANY ($2::uuid[]) AND ($1::text IS NULL OR tenant = $1)
ORDER BY id
FOR NO KEY UPDATE
