-- Active schedules of some shards whose planning is due, soonest first, at most `$4` of each shard.
SELECT
    s.tenant, s.id, s.shard, s.version, s.next_slot, s.rule, s.shift, s.overlap, s.fired,
    CASE WHEN s.overlap IN (/*decided_when_due*/) THEN (
        SELECT count(*) FROM (
            SELECT FROM tickwork_messages AS m
            WHERE m.tenant = s.tenant AND m.schedule_id = s.id AND m.schedule_id IS NOT NULL
            LIMIT /*unfinished_max*/
        ) AS unfinished
    ) ELSE 0 END AS unfinished,
    CASE WHEN s.calendar IS NOT NULL THEN (
        SELECT version FROM tickwork_calendars AS c WHERE c.tenant = s.tenant AND c.name = s.calendar
    ) END AS calendar_version,
    s.expires_after_seconds
FROM (
    SELECT led.shard, due.*
    FROM unnest($2::integer[]) AS led (shard)
    CROSS JOIN LATERAL (
        SELECT tenant, id, version, next_slot, rule, shift, overlap, fired, calendar,
            look_at, expires_after_seconds
        FROM tickwork_schedules
        WHERE bucket / /*buckets_per_shard*/ = led.shard AND status = 'active' AND look_at IS NOT NULL
            AND look_at <= (SELECT coalesce($1::timestamptz, clock_timestamp()))
        ORDER BY look_at, id
        LIMIT $4
    ) AS due
    ORDER BY due.look_at, due.id
    LIMIT $3
) AS s
ORDER BY s.look_at, s.id
