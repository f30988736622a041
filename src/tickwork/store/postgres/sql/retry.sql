-- Makes what is still held ready again after a while; counts an attempt where one was made.
UPDATE messages AS m
SET state = 'ready', holder = NULL, lease_until = NULL, attempts = m.attempts + held.counted,
    visible_at = coalesce($1::timestamptz, clock_timestamp()) + make_interval(secs => held.delay),
    last_error = coalesce(held.error, m.last_error)
FROM unnest($2::text[], $3::uuid[], $4::bigint[], $5::uuid[], $6::float8[], $7::smallint[],
    $8::text[]) AS held (tenant, id, claim, holder, delay, counted, error)
WHERE m.tenant = held.tenant AND m.id = held.id AND m.claim = held.claim
    AND m.holder = held.holder AND m.state = 'claimed'
RETURNING m.tenant, m.id
