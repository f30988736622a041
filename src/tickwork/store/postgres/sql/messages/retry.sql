-- Makes what is still held ready again after a while; counts an attempt where one was made: who lived through that is no
-- suspect any more.
UPDATE tickwork_messages AS m
SET state = 'ready', holder = NULL, lease_until = NULL, attempts = m.attempts + held.counted,
    lost = m.lost * (1 - held.counted),
    visible_at = coalesce($1::timestamptz, clock_timestamp()) + make_interval(secs => held.delay),
    last_error = coalesce(held.error, m.last_error)
FROM (
    SELECT found.at, held.*
    FROM unnest($2::text[], $3::uuid[], $4::bigint[], $5::uuid[], $6::float8[], $7::smallint[],
        $8::text[])
        WITH ORDINALITY AS held (tenant, id, claim, holder, delay, counted, error, number)
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_messages WHERE tenant = held.tenant AND id = held.id LIMIT 1
    ) AS found
) AS held
-- Said so that nobody joins by it: of one holder there may be very many.
WHERE m.ctid = held.at
    AND (m.claim, m.holder) IS NOT DISTINCT FROM (held.claim, held.holder)
RETURNING held.number, m.tenant, m.queue_id, m.type, m.source, held.delay, held.counted
