-- Active schedules of a tenant with a next slot before an instant, soonest due first, after a given schedule.
SELECT /*schedule*/ FROM tickwork_schedules AS s
WHERE s.tenant = $1 AND $2::text = $1 AND s.status = 'active' AND s.due_at IS NOT NULL
    AND ($3::timestamptz IS NULL OR (s.due_at, s.id) > ($3, $4))
    AND ($5::timestamptz IS NULL OR s.due_at < $5)
    AND ($6::text IS NULL OR s.status = $6) AND ($7::text IS NULL OR s.name = $7)
    AND ($8::text IS NULL OR s.calendar = $8)
    AND ($10::text IS NULL OR s.owner = $10) AND ($11::text IS NULL OR starts_with(s.name, $11))
    AND ($12::jsonb IS NULL OR convert_from(s.metadata, 'UTF8')::jsonb @> $12::jsonb)
ORDER BY s.due_at, s.id
LIMIT $9
