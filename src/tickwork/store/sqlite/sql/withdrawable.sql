-- The planned slots of a schedule that were never claimed, are due after an instant, and have no later
-- slot that is on its way or done already: whoever goes back to one of them plans nothing twice. Last:
-- whether a day off after it is on record; with `?4` there are none of these.
SELECT place, slot, coalesce(due_at, visible_at), EXISTS (
        SELECT 1 FROM tickwork_firings AS off
        WHERE off.tenant = ?1 AND off.schedule_id = ?2 AND off.run = 0
            AND off.slot > tickwork_messages.slot AND off.reason = 'excluded'
    )
FROM tickwork_messages
WHERE tenant = ?1 AND schedule_id = ?2 AND schedule_id IS NOT NULL AND run = 0 AND claim = 0
    AND slot IS NOT NULL AND coalesce(due_at, visible_at) > ?3
    AND slot > coalesce((
        SELECT max(other.slot) FROM tickwork_messages AS other
        WHERE other.tenant = ?1 AND other.schedule_id = ?2 AND other.schedule_id IS NOT NULL
            AND other.run = 0 AND (other.claim > 0 OR coalesce(other.due_at, other.visible_at) <= ?3)
    ), -9223372036854775808)
    AND slot > coalesce((
        SELECT coalesce(last_slot, slot) FROM tickwork_firings
        WHERE tenant = ?1 AND schedule_id = ?2 AND run = 0
            AND (
                attempt > 0 OR reason IN ('skipped_missed', 'skipped_overlap')
                OR (?4 AND reason = 'excluded')
            )
        ORDER BY slot DESC LIMIT 1
    ), -9223372036854775808)
ORDER BY slot
