-- Records attempts at slots, of messages that are still held; they stay so until the end.
INSERT INTO tickwork_firings (
    tenant, id, schedule_id, slot, run, attempt, status, reason, due_at, started_at, finished_at,
    result_code, excerpt, channels, catch_up
)
SELECT
    m.tenant, held.firing, m.schedule_id, m.slot, m.run, m.attempts + 1, held.status, held.reason,
    m.visible_at, moment.now - make_interval(secs => held.took_seconds), moment.now,
    held.result_code, held.excerpt, held.channels::jsonb, m.catch_up
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment,
    unnest($2::text[], $3::uuid[], $4::bigint[], $5::uuid[], $6::uuid[], $7::text[], $8::text[],
        $9::float8[], $10::integer[], $11::text[], $12::text[])
        AS held (tenant, id, claim, holder, firing, status, reason, took_seconds, result_code,
            excerpt, channels)
CROSS JOIN LATERAL (
    SELECT * FROM tickwork_messages WHERE tenant = held.tenant AND id = held.id LIMIT 1 FOR UPDATE
) AS m
WHERE m.claim = held.claim AND m.holder = held.holder AND m.schedule_id IS NOT NULL AND m.slot IS NOT NULL
