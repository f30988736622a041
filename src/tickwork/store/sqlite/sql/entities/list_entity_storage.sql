-- Values of an entity in the order of their keys, from a key on (or after one) to before another; and the call that
-- changed it last.
SELECT e.changed_by, s.name, s.value
FROM (SELECT 1) AS one
LEFT JOIN tickwork_entities AS e ON e.tenant = ?1 AND e.id = ?2
LEFT JOIN (
    SELECT name, value FROM tickwork_entity_storage
    WHERE tenant = ?1 AND entity_id = ?2 AND name >= ?3 AND (?4 IS NULL OR name > ?4)
        AND (?5 IS NULL OR name < ?5)
    ORDER BY name
    LIMIT coalesce(?6, -1)
) AS s
ORDER BY s.name
