-- Adds counts to the present minute, in the order given, so that two who do it do not cross.
INSERT INTO tickwork_tallies AS known (queue_id, tenant, minute, passing, type, source, messages)
SELECT counted.queue_id, counted.tenant,
    date_trunc('minute', coalesce($1::timestamptz, statement_timestamp()), 'UTC'),
    counted.passing, counted.type, counted.source, counted.messages
FROM unnest($2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bigint[])
    AS counted (queue_id, tenant, passing, type, source, messages)
ON CONFLICT (queue_id, minute, tenant, passing, type, source)
    DO UPDATE SET messages = known.messages + excluded.messages
