-- Deletes all keys of an entity, and returns the bytes that each frees.
DELETE FROM tickwork_entity_storage WHERE tenant = ?1 AND entity_id = ?2
RETURNING length(CAST(name AS BLOB)) + length(value)
