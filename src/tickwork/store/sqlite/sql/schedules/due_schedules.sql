-- Schedules of some shards whose planning is due, soonest first. Reads each shard in order and merges them,
-- so that it reads no more than the limit.
SELECT
    s.look_at, s.tenant, s.id, s.bucket / /*buckets_per_shard*/, s.version, s.next_slot, s.rule, s.shift, s.overlap, s.fired,
    CASE WHEN s.overlap IN (/*decided_when_due*/) THEN
        (
            SELECT count(*) FROM (
                SELECT 1 FROM tickwork_messages
                WHERE tenant = s.tenant AND schedule_id = s.id AND schedule_id IS NOT NULL
                LIMIT /*unfinished_max*/
            )
        )
    ELSE 0 END,
    CASE WHEN s.calendar IS NOT NULL THEN
        (SELECT version FROM tickwork_calendars WHERE tenant = s.tenant AND name = s.calendar)
    END,
    s.expires_after_seconds
FROM (
    /*each*/
    SELECT look_at, id, place FROM tickwork_schedules
    WHERE bucket / /*buckets_per_shard*/ = ? AND look_at <= ? AND look_at IS NOT NULL AND status = 'active'
    /*each*/
    ORDER BY look_at, id
    LIMIT ?
) AS found
CROSS JOIN tickwork_schedules AS s ON s.place = found.place
