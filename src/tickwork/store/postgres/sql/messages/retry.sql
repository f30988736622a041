-- Makes messages that are still claimed ready again, after a delay or at a time. Counts an attempt if one was made; a
-- message that survived an attempt is no longer a suspect.
UPDATE tickwork_messages AS m
SET state = 'ready', holder = NULL, claimed_at = NULL, lease_until = NULL, attempts = m.attempts + held.counted,
    lost = m.lost * (1 - held.counted),
    visible_at = coalesce(
        held.wake_at, coalesce($1::timestamptz, clock_timestamp()) + make_interval(secs => held.delay)
    ),
    last_error = coalesce(held.error, m.last_error)
FROM (
    SELECT found.at, held.*
    FROM unnest($2::text[], $3::uuid[], $4::bigint[], $5::uuid[], $6::float8[], $7::smallint[],
        $8::text[], $9::timestamptz[])
        WITH ORDINALITY AS held (tenant, id, claim, holder, delay, counted, error, wake_at, number)
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_messages WHERE tenant = held.tenant AND id = held.id LIMIT 1
    ) AS found
) AS held
-- IS NOT DISTINCT FROM keeps the planner from joining by holder, which may match very many rows.
WHERE m.ctid = held.at
    AND (m.claim, m.holder) IS NOT DISTINCT FROM (held.claim, held.holder)
RETURNING held.number, m.tenant, m.queue_id, m.type, m.source,
    m.visible_at <= coalesce($1::timestamptz, clock_timestamp()) AS is_visible,
    -- The key that direct calls of an entity may take meanwhile.
    CASE WHEN m.key IS NOT NULL AND m.visible_at > coalesce($1::timestamptz, clock_timestamp()) AND (
        SELECT starts_with(name, /*entities_prefix*/) FROM tickwork_queues WHERE id = m.queue_id
    ) THEN m.key END AS passable_key
