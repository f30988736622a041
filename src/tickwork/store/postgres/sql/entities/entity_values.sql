-- The values of some keys of an entity, and the call that changed it last.
SELECT e.changed_by, s.name, s.value
FROM (SELECT 1) AS one
LEFT JOIN tickwork_entities AS e ON e.tenant = $1 AND e.id = $2
LEFT JOIN tickwork_entity_storage AS s ON s.tenant = $1 AND s.entity_id = $2 AND s.name = ANY ($3::text[])
