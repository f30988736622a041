-- How many later slots of a schedule are due or were processed, up to a limit of each, and how many of these
-- were missed: claimed too late, or not yet claimed and too late by now.
SELECT count(*), coalesce(sum(is_missed), 0) FROM (
    SELECT * FROM (
        SELECT slot, catch_up OR (state <> 'claimed' AND /*on_time_until*/ < ?4) IS TRUE AS is_missed
        FROM tickwork_messages
        WHERE tenant = ?1 AND schedule_id = ?2 AND schedule_id IS NOT NULL AND slot > ?3 AND run = 0
            AND coalesce(due_at, visible_at) <= ?4
        LIMIT /*later_slots_max*/
    )
    UNION
    SELECT * FROM (
        SELECT slot, catch_up FROM tickwork_firings
        WHERE tenant = ?1 AND schedule_id = ?2 AND slot > ?3 AND run = 0
            AND status IN (/*handled*/)
        LIMIT /*later_slots_max*/
    )
)
