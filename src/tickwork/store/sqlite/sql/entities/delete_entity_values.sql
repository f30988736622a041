-- Deletes a key of an entity, and returns the bytes that it frees.
DELETE FROM tickwork_entity_storage WHERE tenant = ?1 AND entity_id = ?2 AND name = ?3
RETURNING length(CAST(name AS BLOB)) + length(value)
