-- How many planned slots of a schedule can be taken back, as `planned_slots` takes them.
SELECT count(*) FROM tickwork_messages
WHERE tenant = $2 AND schedule_id = $3 AND schedule_id IS NOT NULL AND run = 0
    AND state <> 'claimed' AND claim = 0
    AND NOT ($4 AND coalesce(due_at, visible_at) <= $1::timestamptz)
    AND slot > coalesce((
        SELECT max(other.slot) FROM tickwork_messages AS other
        WHERE other.tenant = $2 AND other.schedule_id = $3 AND other.schedule_id IS NOT NULL
            AND other.run = 0 AND (
                other.claim > 0
                OR ($4 AND coalesce(other.due_at, other.visible_at) <= $1::timestamptz)
            )
    ), '-infinity')
    AND slot > coalesce((
        SELECT coalesce(fired.last_slot, fired.slot) FROM tickwork_firings AS fired
        WHERE fired.tenant = $2 AND fired.schedule_id = $3 AND fired.run = 0
            AND (
                fired.attempt > 0 OR fired.reason IN ('skipped_missed', 'skipped_overlap')
                OR ($4 AND fired.reason = 'excluded')
            )
        ORDER BY fired.slot DESC LIMIT 1
    ), '-infinity')
