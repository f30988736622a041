-- Deletes keys of entities, or all keys of those that are cleared, and returns the bytes freed.
WITH old AS MATERIALIZED (
    SELECT found.at
    FROM unnest($1::text[], $2::uuid[]) AS cleared (tenant, entity_id)
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_entity_storage
        WHERE tenant = cleared.tenant AND entity_id = cleared.entity_id
        OFFSET 0
    ) AS found
    UNION ALL
    SELECT found.at
    FROM unnest($3::text[], $4::uuid[], $5::text[]) AS deleted (tenant, entity_id, name)
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_entity_storage
        WHERE tenant = deleted.tenant AND entity_id = deleted.entity_id AND name = deleted.name
        LIMIT 1
    ) AS found
),
gone AS (
    DELETE FROM tickwork_entity_storage AS s
    WHERE s.ctid = ANY (ARRAY (SELECT at FROM old))
    RETURNING s.tenant, s.entity_id, octet_length(s.name) + octet_length(s.value) AS bytes
)
SELECT tenant, entity_id, sum(bytes)::bigint AS bytes FROM gone GROUP BY tenant, entity_id
