-- Locks keys in a fixed order, so that no send to them is in progress.
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
