-- Records slots, each of its schedule, that did not fire since their schedule is paused.
INSERT INTO tickwork_firings (
    tenant, id, schedule_id, slot, run, attempt, status, reason, due_at, started_at, finished_at, count
)
SELECT given.tenant, given.id, given.schedule_id, given.slot, 0, 0, 'skipped', $6, given.slot, moment.now,
    moment.now, 1
FROM unnest($2::text[], $3::uuid[], $4::uuid[], $5::timestamptz[])
    AS given (tenant, id, schedule_id, slot)
CROSS JOIN (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
