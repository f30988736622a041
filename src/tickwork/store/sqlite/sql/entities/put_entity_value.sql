-- Stores a value of an entity.
INSERT INTO tickwork_entity_storage (tenant, entity_id, name, value) VALUES (?1, ?2, ?3, ?4)
