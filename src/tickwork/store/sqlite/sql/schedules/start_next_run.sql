-- Sets the next slot of a schedule that is counted from the end of a run, which is now (`?2`): after its
-- delay as that is by now, or else as it was (`?3`). It is looked at so long before (`?4`), but when it is
-- due where the overlap policy needs the present; and not at all while it is paused.
UPDATE tickwork_schedules AS s
SET version = s.version + 1, next_slot = following.slot, due_at = following.slot,
    look_at = CASE
        WHEN s.status <> 'active' THEN NULL
        WHEN s.overlap IN (/*decided_when_due*/) THEN following.slot
        ELSE following.slot - ?4
    END
FROM (
    SELECT place, ?2 + coalesce(
        CAST(round(json_extract(terms, '$.delay_seconds') * 1000000) AS INTEGER), ?3
    ) AS slot
    FROM tickwork_schedules WHERE place = ?1
) AS following
WHERE s.place = following.place AND s.status IN ('active', 'paused') AND s.next_slot IS NULL
RETURNING look_at
