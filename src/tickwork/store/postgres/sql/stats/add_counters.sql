-- Adds counts to the current minute, in the given order, so that concurrent writers do not deadlock.
INSERT INTO tickwork_tallies AS known (queue_id, tenant, minute, passing, type, source, messages)
SELECT counted.queue_id, counted.tenant,
    date_trunc('minute', coalesce($1::timestamptz, statement_timestamp()), 'UTC'),
    counted.passing, counted.type, counted.source, counted.messages
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[])
    AS counted (queue_id, tenant, passing, type, source, messages)
ON CONFLICT (queue_id, minute, tenant, passing, type, source)
    DO UPDATE SET messages = known.messages + excluded.messages
