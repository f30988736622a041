-- Locks deliveries of one tenant or any. In a fixed order, so that concurrent transactions do not deadlock.
SELECT id FROM tickwork_deliveries
WHERE id = ANY ($1::uuid[]) AND ($2::text IS NULL OR tenant = $2)
ORDER BY id
FOR NO KEY UPDATE
