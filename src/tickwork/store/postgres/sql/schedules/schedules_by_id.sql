-- Schedules by tenant and id, after a given schedule: of a status, or all but the deleted; of a name.
SELECT /*schedule*/ FROM tickwork_schedules AS s
WHERE s.tenant >= $1 AND s.tenant <= $2 AND (s.tenant, s.id) > ($3, $4)
    AND CASE WHEN $5::text IS NULL THEN s.status <> 'deleted' ELSE s.status = $5 END
    AND ($6::text IS NULL OR s.name = $6) AND ($7::text IS NULL OR s.calendar = $7)
    AND ($9::text IS NULL OR s.owner = $9) AND ($10::text IS NULL OR starts_with(s.name, $10))
    AND ($11::jsonb IS NULL OR convert_from(s.metadata, 'UTF8')::jsonb @> $11::jsonb)
ORDER BY s.tenant, s.id
LIMIT $8
