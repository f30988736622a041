-- Schedules by tenant and name, those without a name last, after a given schedule (`$9` is its name, `$13`
-- its owner): of a
-- status, or all but the deleted; of a calendar.
(
    SELECT /*schedule*/, s.name AS called, coalesce(s.owner, '') AS whose FROM tickwork_schedules AS s
    WHERE s.tenant >= $1 AND s.tenant <= $2 AND s.name IS NOT NULL AND s.status <> 'deleted'
        AND (s.tenant, s.name, coalesce(s.owner, '')) > ($3, $9::text, $13::text)
        AND ($5::text IS NULL OR s.status = $5) AND ($6::text IS NULL OR s.name = $6)
        AND ($7::text IS NULL OR s.calendar = $7)
        AND ($10::text IS NULL OR s.owner = $10) AND ($11::text IS NULL OR starts_with(s.name, $11))
        AND ($12::jsonb IS NULL OR convert_from(s.metadata, 'UTF8')::jsonb @> $12::jsonb)
    ORDER BY s.tenant, s.name, coalesce(s.owner, '')
    LIMIT $8
)
UNION ALL
(
    SELECT /*schedule*/, NULL COLLATE "C" AS called, '' COLLATE "C" AS whose FROM tickwork_schedules AS s
    WHERE s.tenant >= $1 AND s.tenant <= $2 AND (s.tenant, s.id) > ($3, $4)
        AND (s.name IS NULL OR s.status = 'deleted') AND $6::text IS NULL
        AND CASE WHEN $5::text IS NULL THEN s.status <> 'deleted' ELSE s.status = $5 END
        AND ($7::text IS NULL OR s.calendar = $7)
        AND ($10::text IS NULL OR s.owner = $10) AND ($11::text IS NULL OR starts_with(s.name, $11))
        AND ($12::jsonb IS NULL OR convert_from(s.metadata, 'UTF8')::jsonb @> $12::jsonb)
    ORDER BY s.tenant, s.id
    LIMIT $8
)
ORDER BY tenant, called, whose, id
LIMIT $8
