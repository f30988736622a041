-- The planned slots of a schedule that were never claimed and are due after an instant; extra runs only with
-- `?5`. For each: whether it is superseded (this slot or a later one is due, was claimed or has a record, so
-- planning must not go back to it), its run, and whether a record exists of a slot in the future, because the
-- clock was set back. `?4` leaves out both.
WITH known (slot, again) AS (
    SELECT max(
        coalesce((
            SELECT max(other.slot) FROM tickwork_messages AS other
            WHERE other.tenant = ?1 AND other.schedule_id = ?2 AND other.schedule_id IS NOT NULL
                AND other.run = 0
                AND (other.claim > 0 OR coalesce(other.due_at, other.visible_at) <= ?3)
        ), -9223372036854775808),
        coalesce((
            SELECT coalesce(last_slot, slot) FROM tickwork_firings
            WHERE tenant = ?1 AND schedule_id = ?2 AND run = 0 AND slot <= ?6
            ORDER BY slot DESC LIMIT 1
        ), -9223372036854775808)
    ),
    coalesce((
        SELECT slot FROM tickwork_firings
        WHERE tenant = ?1 AND schedule_id = ?2 AND run = 0 AND slot > ?6
        ORDER BY slot DESC LIMIT 1
    ), -9223372036854775808)
)
SELECT place, m.slot, coalesce(due_at, visible_at), run = 0 AND m.slot <= known.slot, run,
    run = 0 AND m.slot <= known.again
FROM tickwork_messages AS m CROSS JOIN known
WHERE tenant = ?1 AND schedule_id = ?2 AND schedule_id IS NOT NULL AND (run = 0 OR ?5) AND claim = 0
    AND m.slot IS NOT NULL AND coalesce(due_at, visible_at) > ?3
    AND NOT (?4 AND m.slot <= max(known.slot, known.again))
ORDER BY m.slot, run
