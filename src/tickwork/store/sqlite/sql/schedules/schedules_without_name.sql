-- Schedules of a tenant without a name, by creation, after a given schedule. A deleted schedule has lost its
-- name.
SELECT s.place, s.queue_id, /*schedule*/ FROM tickwork_schedules AS s
WHERE tenant = ?1 AND id > ?2 AND (name IS NULL OR status = 'deleted')
    AND (?3 IS NULL OR status = ?3) AND (?3 IS NOT NULL OR status <> 'deleted')
    AND (?4 IS NULL OR calendar = ?4) AND (?5 IS NULL OR name = ?5)
    AND (?9 IS NULL OR owner = ?9) AND (?10 IS NULL OR substr(name, 1, length(?10)) = ?10)
    AND (?11 IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(?11) AS wanted
        WHERE NOT EXISTS (
            SELECT 1 FROM json_each(CAST(s.metadata AS TEXT)) AS has
            WHERE has.key = wanted.key AND has.type = wanted.type AND has.atom IS wanted.atom
        )
    ))
ORDER BY id
LIMIT ?6
