-- Sets the next slot of a schedule that counts from the end of a run, which is now (`?2`), after its current
-- delay or else the former one (`?3`). It is planned `?4` ahead, but not before now; or when it is due, if the
-- overlap policy decides then. A paused schedule is not planned.
UPDATE tickwork_schedules AS s
SET version = s.version + 1, next_slot = following.slot, due_at = following.slot,
    look_at = CASE
        WHEN s.status <> 'active' THEN NULL
        WHEN s.overlap IN (/*decided_when_due*/) THEN following.slot
        ELSE max(following.slot - ?4, ?2)
    END
FROM (
    SELECT place, ?2 + coalesce(
        CAST(round(json_extract(terms, '$.delay_seconds') * 1000000) AS INTEGER), ?3
    ) AS slot
    FROM tickwork_schedules WHERE place = ?1
) AS following
WHERE s.place = following.place AND s.status IN ('active', 'paused') AND s.next_slot IS NULL
RETURNING look_at
