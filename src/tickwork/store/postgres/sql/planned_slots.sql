-- Planned slots of schedules that nobody ever claimed, taken: all, or (`$4`) those that are not due. What
-- somebody is claiming right now is left to him; so is a slot before one that is on its way or done
-- already: whoever goes back to a slot plans nothing twice. `is_passed`: a day off after it is on record;
-- with `$4` such a slot is left, too.
SELECT m.*
FROM (SELECT * FROM unnest($2::text[], $3::uuid[]) AS given (tenant, id) ORDER BY tenant, id) AS given
CROSS JOIN LATERAL (
    SELECT tenant, schedule_id, id, slot, coalesce(due_at, visible_at) AS due_at, queue_id, key,
        EXISTS (
            SELECT FROM tickwork_firings AS off
            WHERE off.tenant = given.tenant AND off.schedule_id = given.id AND off.run = 0
                AND off.slot > tickwork_messages.slot AND off.reason = 'excluded'
        ) AS is_passed
    FROM tickwork_messages
    WHERE tenant = given.tenant AND schedule_id = given.id AND schedule_id IS NOT NULL AND run = 0
        AND state <> 'claimed' AND claim = 0
        AND NOT ($4 AND coalesce(due_at, visible_at) <= $1::timestamptz)
        AND slot > coalesce((
            SELECT max(other.slot) FROM tickwork_messages AS other
            WHERE other.tenant = given.tenant AND other.schedule_id = given.id AND other.schedule_id IS NOT NULL
                AND other.run = 0 AND (
                    other.claim > 0
                    OR ($4 AND coalesce(other.due_at, other.visible_at) <= $1::timestamptz)
                )
        ), '-infinity')
        AND slot > coalesce((
            SELECT coalesce(fired.last_slot, fired.slot) FROM tickwork_firings AS fired
            WHERE fired.tenant = given.tenant AND fired.schedule_id = given.id AND fired.run = 0
                AND (
                    fired.attempt > 0 OR fired.reason IN ('skipped_missed', 'skipped_overlap')
                    OR ($4 AND fired.reason = 'excluded')
                )
            ORDER BY fired.slot DESC LIMIT 1
        ), '-infinity')
    ORDER BY slot
    FOR UPDATE SKIP LOCKED
) AS m
