-- Entities of a type by key, from a key on to before another, and after a third.
SELECT type, key, bytes, schema_version, alarm_at, schedules, created_at, updated_at FROM tickwork_entities
WHERE tenant = $1 AND type = $2 AND key >= $3 AND ($4::text IS NULL OR key < $4) AND key > $5
ORDER BY key
LIMIT $6
