-- Records the success of slots. `?1` is a list of the rowids of their messages, `?2` the concatenated ids of
-- the records, and `?3` the concatenated durations of `?4` digits each.
INSERT INTO tickwork_firings (
    tenant, schedule_id, slot, run, attempt, due_at, catch_up, id, status, started_at, finished_at
)
SELECT m.tenant, m.schedule_id, m.slot, m.run, m.attempts + 1, coalesce(m.due_at, m.visible_at),
    m.catch_up, substr(?2, seen.key * 16 + 1, 16), 'succeeded',
    ?5 - CAST(substr(?3, seen.key * ?4 + 1, ?4) AS INTEGER), ?5
FROM json_each(?1) AS seen
CROSS JOIN tickwork_messages AS m ON m.place = seen.value
WHERE m.schedule_id IS NOT NULL AND m.slot IS NOT NULL
