-- Stores the states and values of entities, and counts the bytes of their storage.
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
put AS MATERIALIZED (
    SELECT * FROM unnest($12::text[], $13::uuid[], $14::text[], $15::bytea[]) AS put (tenant, entity_id, name, value)
),
replaced AS MATERIALIZED (
    SELECT put.tenant, put.entity_id, sum(s.bytes)::bigint AS bytes
    FROM put CROSS JOIN LATERAL (
        SELECT octet_length(name) + octet_length(value) AS bytes FROM tickwork_entity_storage
        WHERE tenant = put.tenant AND entity_id = put.entity_id AND name = put.name
        LIMIT 1
    ) AS s
    GROUP BY put.tenant, put.entity_id
),
added AS MATERIALIZED (
    SELECT tenant, entity_id, sum(octet_length(name) + octet_length(value))::bigint AS bytes
    FROM put GROUP BY tenant, entity_id
),
stored AS (
    INSERT INTO tickwork_entity_storage (tenant, entity_id, name, value)
    SELECT tenant, entity_id, name, value FROM put ORDER BY tenant, entity_id, name
    ON CONFLICT (tenant, entity_id, name) DO UPDATE SET value = excluded.value
)
INSERT INTO tickwork_entities AS e (
    tenant, id, type, key, changed_by, schema_version, alarm_id, alarm_at, dead_alarm_id, schedules, bytes,
    created_at, updated_at
)
SELECT
    new.tenant, new.id, new.type, new.key, new.changed_by, new.schema_version, new.alarm_id, new.alarm_at,
    new.dead_alarm_id, new.schedules, coalesce(added.bytes, 0) - coalesce(replaced.bytes, 0) - new.freed, now, now
FROM unnest(
    $2::text[], $3::uuid[], $4::text[], $5::text[], $6::uuid[], $7::integer[], $8::uuid[], $9::timestamptz[],
    $10::uuid[], $11::text[], $16::bigint[]
) AS new (
    tenant, id, type, key, changed_by, schema_version, alarm_id, alarm_at, dead_alarm_id, schedules, freed
)
CROSS JOIN moment
LEFT JOIN replaced ON replaced.tenant = new.tenant AND replaced.entity_id = new.id
LEFT JOIN added ON added.tenant = new.tenant AND added.entity_id = new.id
ORDER BY new.tenant, new.id
ON CONFLICT (tenant, id) DO UPDATE SET
    changed_by = excluded.changed_by, schema_version = excluded.schema_version, schedules = excluded.schedules,
    -- An alarm that the call keeps may have become a dead letter meanwhile.
    alarm_id = CASE WHEN e.dead_alarm_id = excluded.alarm_id THEN NULL ELSE excluded.alarm_id END,
    alarm_at = CASE WHEN e.dead_alarm_id = excluded.alarm_id THEN NULL ELSE excluded.alarm_at END,
    dead_alarm_id = CASE WHEN e.dead_alarm_id = excluded.alarm_id THEN e.dead_alarm_id ELSE excluded.dead_alarm_id END,
    bytes = e.bytes + excluded.bytes, updated_at = excluded.updated_at
