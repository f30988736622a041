-- Locks those of some tenants that have a quota for claims, in a fixed order, so that concurrent claims agree.
SELECT id, claimed_max FROM tickwork_tenants
WHERE id = ANY ($1::text[]) AND claimed_max IS NOT NULL
ORDER BY id
FOR NO KEY UPDATE
