-- Applies the outcomes of slots to their schedules, which are locked: last status, errors, status, and the
-- next slot if it counts from the end of a run. Returns the schedules whose next slot or status changed.
UPDATE tickwork_schedules AS s
SET error_count = given.failures + CASE
        WHEN given.is_reset OR (given.is_shown AND s.last_status IN (/*final_failures*/)) THEN 0
        ELSE s.error_count
    END,
    last_error = CASE WHEN given.is_shown THEN given.error ELSE s.last_error END,
    last_status = coalesce(given.shown, s.last_status),
    status = stands.status,
    version = s.version + (stands.status <> s.status OR moves.at IS NOT NULL)::integer,
    changed_at = CASE WHEN stands.status <> s.status THEN moment.now ELSE s.changed_at END,
    next_slot = coalesce(moves.at, s.next_slot),
    due_at = coalesce(moves.at, s.due_at),
    look_at = CASE
        WHEN stands.status <> 'active' THEN NULL
        WHEN moves.at IS NULL THEN s.look_at
        WHEN s.overlap IN (/*decided_when_due*/) THEN moves.at
        ELSE greatest(moves.at - make_interval(secs => /*ahead_seconds*/), moment.now)
    END
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment,
    (
        -- Arrays of one element hold a value that all rows share.
        SELECT id,
            ($2::text[])[least(number, cardinality($2))] AS tenant,
            ($4::boolean[])[least(number, cardinality($4))] AS is_reset,
            ($5::integer[])[least(number, cardinality($5))] AS failures,
            ($6::boolean[])[least(number, cardinality($6))] AS is_shown,
            ($7::text[])[least(number, cardinality($7))] AS error,
            ($8::text[])[least(number, cardinality($8))] AS shown,
            ($9::text[])[least(number, cardinality($9))] AS becomes,
            ($10::float8[])[least(number, cardinality($10))] AS delay,
            ($11::timestamptz[])[least(number, cardinality($11))] AS slot
        FROM unnest($3::uuid[]) WITH ORDINALITY AS given (id, number)
    ) AS given
CROSS JOIN LATERAL (
    SELECT ctid AS at, status, next_slot, last_slot, terms FROM tickwork_schedules
    WHERE tenant = given.tenant AND id = given.id AND status <> 'deleted' LIMIT 1
) AS was
CROSS JOIN LATERAL (
    -- The last run decides how the schedule continues; a run that has a later one does not.
    SELECT (given.delay IS NOT NULL OR given.becomes IS NOT NULL) AND was.next_slot IS NULL
        AND NOT EXISTS (
            SELECT FROM tickwork_messages AS m
            WHERE m.tenant = given.tenant AND m.schedule_id = given.id AND m.schedule_id IS NOT NULL
                AND m.run = 0 AND m.slot > given.slot
        ) AS is_last
) AS runs
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN given.becomes IS NULL THEN was.status
        WHEN given.becomes = 'completed if parked' THEN CASE
            WHEN was.status = 'parked' AND was.next_slot IS NULL AND was.last_slot = given.slot
                THEN 'completed'
            ELSE was.status
        END
        WHEN given.becomes = 'paused' AND was.status = 'active' THEN 'paused'
        -- A schedule that got another rule in the meantime has a next slot and stays active.
        WHEN given.becomes <> 'paused' AND was.status IN ('active', 'paused') AND runs.is_last
            THEN given.becomes
        ELSE was.status
    END AS status
) AS stands
CROSS JOIN LATERAL (
    -- After its current delay, which may have changed since the run started.
    SELECT CASE WHEN given.delay IS NOT NULL AND runs.is_last
            AND was.status IN ('active', 'paused') AND stands.status IN ('active', 'paused')
        THEN moment.now + make_interval(
            secs => coalesce((was.terms::jsonb ->> 'delay_seconds')::float8, given.delay)
        )
    END AS at
) AS moves
WHERE s.ctid = was.at
RETURNING s.tenant, s.id, s.status, was.status AS old_status, moves.at IS NOT NULL AS is_moved
