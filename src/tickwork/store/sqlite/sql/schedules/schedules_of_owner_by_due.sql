-- Active schedules of an owner that are due before an instant, soonest first, after a given schedule. Sorts
-- those of that owner.
SELECT s.place, s.queue_id, /*schedule*/ FROM tickwork_schedules AS s
WHERE tenant = ?1 AND owner = ?9 AND owner IS NOT NULL AND +status = 'active' AND (+due_at, id) > (?2, ?7)
    AND due_at < ?8
    AND (?3 IS NULL OR status = ?3) AND (?4 IS NULL OR calendar = ?4) AND (?5 IS NULL OR name = ?5)
    AND (?9 IS NULL OR owner = ?9) AND (?10 IS NULL OR substr(name, 1, length(?10)) = ?10)
    AND (?11 IS NULL OR NOT EXISTS (
        SELECT 1 FROM json_each(?11) AS wanted
        WHERE NOT EXISTS (
            SELECT 1 FROM json_each(CAST(s.metadata AS TEXT)) AS has
            WHERE has.key = wanted.key AND has.type = wanted.type AND has.atom IS wanted.atom
        )
    ))
ORDER BY due_at, id
LIMIT ?6
