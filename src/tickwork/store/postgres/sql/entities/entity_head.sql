-- The states of entities with their storage if that is small, the time, and the results that are kept under
-- idempotency keys.
SELECT
    moment.now, e.changed_by, e.schema_version, e.bytes, e.alarm_id, e.alarm_at, e.dead_alarm_id, e.schedules,
    r.key AS result_key, r.fingerprint, r.value, r.error, small.names, small.stored
FROM unnest($2::text[], $3::uuid[], $4::text[]) WITH ORDINALITY AS asked (tenant, id, result_key, number)
CROSS JOIN (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
LEFT JOIN LATERAL (
    SELECT * FROM tickwork_entities WHERE tenant = asked.tenant AND id = asked.id LIMIT 1
) AS e ON true
LEFT JOIN LATERAL (
    SELECT * FROM tickwork_entity_results
    WHERE tenant = asked.tenant AND entity_id = asked.id AND key = asked.result_key
        AND done_at > moment.now - make_interval(secs => /*result_retention_seconds*/)
    LIMIT 1
) AS r ON true
LEFT JOIN LATERAL (
    SELECT array_agg(name) AS names, array_agg(value) AS stored FROM tickwork_entity_storage
    WHERE tenant = asked.tenant AND entity_id = e.id
) AS small ON e.bytes <= /*small_storage_bytes_max*/
ORDER BY asked.number
