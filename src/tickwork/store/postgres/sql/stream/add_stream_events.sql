-- Stores system events for streams, each with the owner of the schedule that it is about.
INSERT INTO tickwork_stream_events (id, tenant, owner, at, type, data)
SELECT
    new.id, new.tenant,
    (SELECT s.owner FROM tickwork_schedules AS s WHERE s.tenant = new.tenant AND s.id = new.schedule_id),
    coalesce($1::timestamptz, clock_timestamp()), new.type, new.data
FROM unnest($2::uuid[], $3::text[], $4::uuid[], $5::text[], $6::text[])
    AS new (id, tenant, schedule_id, type, data)
