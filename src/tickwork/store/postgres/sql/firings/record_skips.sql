-- Records runs of slots that do not fire.
INSERT INTO tickwork_firings (
    tenant, id, schedule_id, slot, last_slot, run, attempt, status, reason, due_at, started_at,
    finished_at, count
)
SELECT $2, skip.id, $3, skip.first, CASE WHEN skip.count > 1 THEN skip.last END, skip.run, 0, 'skipped',
    skip.reason, skip.first, $1, $1, skip.count
FROM unnest($4::uuid[], $5::timestamptz[], $6::timestamptz[], $7::integer[], $8::text[], $9::integer[])
    AS skip (id, first, last, count, reason, run)
