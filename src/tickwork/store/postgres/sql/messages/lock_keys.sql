-- Takes keys, in a fixed order: no send to one of them can be under way after this.
SELECT known.last_place
FROM (
    SELECT * FROM unnest($1::text[], $2::uuid[], $3::text[]) AS freed (tenant, queue_id, key)
    ORDER BY tenant, queue_id, key
) AS freed
CROSS JOIN LATERAL (
    SELECT last_place FROM tickwork_keys
    WHERE tenant = freed.tenant AND queue_id = freed.queue_id AND key = freed.key
    FOR UPDATE
) AS known
