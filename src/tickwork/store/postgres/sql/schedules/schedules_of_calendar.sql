-- Schedules that use a calendar, by tenant and id, after a given schedule: of a status, or all; of a name.
SELECT /*schedule*/ FROM tickwork_schedules AS s
WHERE s.tenant >= $1 AND s.tenant <= $2 AND (s.tenant, s.calendar, s.id) > ($3, $7, $4)
    AND s.calendar = $7 AND s.calendar IS NOT NULL AND s.status <> 'deleted'
    AND ($5::text IS NULL OR s.status = $5) AND ($6::text IS NULL OR s.name = $6)
    AND ($9::text IS NULL OR s.owner = $9) AND ($10::text IS NULL OR starts_with(s.name, $10))
    AND ($11::jsonb IS NULL OR convert_from(s.metadata, 'UTF8')::jsonb @> $11::jsonb)
ORDER BY s.tenant, s.calendar, s.id
LIMIT $8
