-- Deletes the state of an entity.
DELETE FROM tickwork_entities WHERE tenant = ?1 AND id = ?2
