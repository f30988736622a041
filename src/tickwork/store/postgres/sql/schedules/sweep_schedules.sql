-- Schedules whose last run no longer exists continue after their delay or are completed. Skips schedules that
-- have changed.
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
picked AS MATERIALIZED (
    SELECT found.at, given.delay
    FROM (
        SELECT * FROM unnest($2::text[], $3::uuid[], $4::bigint[], $5::float8[])
            AS given (tenant, id, version, delay)
        ORDER BY tenant, id
    ) AS given
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_schedules
        WHERE tenant = given.tenant AND id = given.id AND version = given.version
            AND status = 'active' AND next_slot IS NULL
        FOR UPDATE SKIP LOCKED
    ) AS found
),
swept AS (
    UPDATE tickwork_schedules AS s
    SET version = s.version + 1,
        status = CASE WHEN picked.delay IS NULL THEN 'completed' ELSE s.status END,
        changed_at = CASE WHEN picked.delay IS NULL THEN moment.now ELSE s.changed_at END,
        next_slot = moment.now + make_interval(secs => picked.delay),
        due_at = moment.now + make_interval(secs => picked.delay),
        look_at = CASE
            WHEN s.overlap IN (/*decided_when_due*/) OR picked.delay IS NULL
                THEN moment.now + make_interval(secs => picked.delay)
            ELSE moment.now + make_interval(secs => greatest(picked.delay - /*ahead_seconds*/, 0))
        END
    FROM moment, picked
    WHERE s.ctid = picked.at
    RETURNING s.tenant, s.id, s.status
),
fewer AS (
    INSERT INTO tickwork_schedule_counts AS known (tenant, stripe, schedules)
    SELECT tenant, pg_current_xact_id()::text::bigint % /*stripes*/, -count(*)
    FROM swept WHERE status = 'completed'
    GROUP BY tenant
    ORDER BY tenant
    ON CONFLICT (tenant, stripe) DO UPDATE SET schedules = known.schedules + excluded.schedules
)
SELECT id FROM swept
