-- Deletes messages that are still claimed by exactly this claim and records their events, if all of them are
-- plain: no key, no batch, no cap, and no event for a slot. Otherwise it does nothing. For a slot it records
-- the success and updates the schedule; a slot that completes its schedule does so if no later slot has a
-- message. (A schedule that changes meanwhile is left to the sweeper.) Ends the runs of messages that stand for one. Returns
-- the deleted messages by kind, and which of them are duplicates: of two messages with one event only one is new.
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
given AS MATERIALIZED (
    -- Arrays of one element hold a value that all rows share. `at` is the row's last known ctid.
    SELECT id, at, firing, took_seconds, completes, number,
        ($2::text[])[least(number, cardinality($2))] AS tenant,
        ($4::bigint[])[least(number, cardinality($4))] AS claim,
        ($5::uuid[])[least(number, cardinality($5))] AS holder,
        ($16::float8[])[least(number, cardinality($16))] AS handled_seconds
    FROM unnest($3::uuid[], $6::tid[], $13::uuid[], $14::float8[], $15::boolean[])
        WITH ORDINALITY AS given (id, at, firing, took_seconds, completes, number)
),
found AS MATERIALIZED (
    SELECT found.at, found.queue_id,
        found.is_entangled OR (found.has_event AND given.firing IS NOT NULL) AS is_entangled,
        given.claim, given.holder, given.firing, given.took_seconds, given.completes, given.handled_seconds,
        given.number
    FROM given
    CROSS JOIN LATERAL (
        SELECT ctid AS at, queue_id, key IS NOT NULL OR batch_id IS NOT NULL AS is_entangled,
            event_id IS NOT NULL AS has_event
        FROM tickwork_messages WHERE ctid = given.at AND tenant = given.tenant AND id = given.id
        UNION ALL
        SELECT ctid, queue_id, key IS NOT NULL OR batch_id IS NOT NULL, event_id IS NOT NULL
        FROM tickwork_messages WHERE tenant = given.tenant AND id = given.id
        LIMIT 1
    ) AS found
),
gone AS (
    DELETE FROM tickwork_messages AS m
    USING found AS held
    -- IS NOT DISTINCT FROM keeps the planner from joining by holder, which may match very many rows.
    WHERE m.ctid = held.at
        AND (m.claim, m.holder) IS NOT DISTINCT FROM (held.claim, held.holder)
        AND NOT (
            SELECT coalesce(bool_or(
                is_entangled OR queue_id IN (SELECT id FROM tickwork_queues WHERE is_capped)
            ), false)
            FROM found
        )
    RETURNING held.number, m.id, m.tenant, m.queue_id, m.type, m.source, m.event_id, held.firing,
        held.took_seconds, held.completes, held.handled_seconds, m.key, m.batch_id, m.claimed_at, m.attempts,
        m.catch_up, coalesce(m.due_at, m.visible_at) AS due_at, /*ended_message*/
),
remembered AS (
    INSERT INTO tickwork_events_done (tenant, queue_id, event_id, done_at)
    SELECT DISTINCT tenant, queue_id, event_id, moment.now
    FROM moment, gone WHERE event_id IS NOT NULL
    ORDER BY tenant, queue_id, event_id
    ON CONFLICT DO NOTHING
    RETURNING tenant, queue_id, event_id
),
finished AS (
    UPDATE tickwork_runs AS r SET
        status = run.status, result = run.result, error = run.error,
        failed_step = run.failed_step, finished_at = moment.now
    FROM moment, gone JOIN unnest($7::bigint[], $8::uuid[], $9::text[], $10::bytea[], $11::text[], $12::text[])
        AS run (number, uid, status, result, error, failed_step) USING (number)
    -- The array keeps a plan that was made while the table was empty from reading all of it.
    WHERE r.uid = ANY ($8::uuid[]) AND r.uid = run.uid AND r.message_id = gone.id AND r.status = 'running'
),
slots AS MATERIALIZED (
    SELECT gone.*, moment.now FROM moment, gone
    WHERE firing IS NOT NULL AND schedule_id IS NOT NULL AND slot IS NOT NULL
),
recorded AS (
    INSERT INTO tickwork_firings (
        tenant, id, schedule_id, slot, run, attempt, status, due_at, started_at, finished_at,
        channels, catch_up
    )
    SELECT
        tenant, firing, schedule_id, slot, run, attempts + 1, 'succeeded', due_at,
        now - make_interval(secs => took_seconds), now, '[]', catch_up
    FROM slots
),
shown AS (
    UPDATE tickwork_schedules AS s
    SET (error_count, last_error, last_status) = ROW (/*after_success*/),
        status = CASE WHEN s.version = ended.over_at_version THEN 'completed' ELSE s.status END,
        version = s.version + (s.version IS NOT DISTINCT FROM ended.over_at_version)::integer,
        changed_at = CASE
            WHEN s.version = ended.over_at_version THEN ended.now ELSE s.changed_at
        END
    FROM (
        SELECT slots.tenant, slots.schedule_id, slots.now, max(over.version) AS over_at_version
        FROM slots
        LEFT JOIN LATERAL (
            -- Every change but planning raises the version, and there is no slot to plan.
            SELECT version FROM tickwork_schedules AS o
            WHERE o.tenant = slots.tenant
                -- NULL looks up nothing.
                AND o.id = CASE WHEN slots.completes THEN slots.schedule_id END
                AND o.next_slot IS NULL AND o.status IN ('active', 'paused')
                AND NOT EXISTS (
                    SELECT FROM tickwork_messages AS m
                    WHERE m.tenant = slots.tenant AND m.schedule_id = slots.schedule_id
                        AND m.schedule_id IS NOT NULL AND m.run = 0 AND m.slot > slots.slot
                )
            LIMIT 1
        ) AS over ON true
        GROUP BY slots.tenant, slots.schedule_id, slots.now
        -- In a fixed order, so that concurrent transactions do not deadlock.
        ORDER BY slots.tenant, slots.schedule_id
    ) AS ended
    -- Arrays of one element: a plan that was made while the table was empty must not join by reading all of it.
    WHERE s.tenant = ANY (ARRAY[ended.tenant]) AND s.id = ANY (ARRAY[ended.schedule_id]) AND s.status <> 'deleted'
        AND (
            (s.error_count, s.last_error, s.last_status) IS DISTINCT FROM (/*after_success*/)
            OR s.version = ended.over_at_version
        )
    RETURNING s.tenant, s.status = 'completed' AND s.version = ended.over_at_version + 1
        AND s.changed_at = ended.now AS is_over
),
fewer AS (
    INSERT INTO tickwork_schedule_counts AS known (tenant, stripe, schedules)
    SELECT tenant, pg_current_xact_id()::text::bigint % /*stripes*/, -count(*)
    FROM shown WHERE is_over
    GROUP BY tenant
    ORDER BY tenant
    ON CONFLICT (tenant, stripe) DO UPDATE SET schedules = known.schedules + excluded.schedules
),
acked AS MATERIALIZED (
    SELECT gone.*, true AS fresh FROM gone WHERE event_id IS NULL
    UNION ALL
    SELECT gone.*,
        remembered.event_id IS NOT NULL
            AND row_number() OVER (
                PARTITION BY gone.tenant, gone.queue_id, gone.event_id ORDER BY number
            ) = 1
    FROM gone LEFT JOIN remembered USING (tenant, queue_id, event_id)
    WHERE gone.event_id IS NOT NULL
),
ended AS (
    SELECT acked.*, moment.now AS ended_at,
        CASE WHEN fresh THEN 'done' ELSE 'discarded' END AS outcome,
        CASE WHEN NOT fresh THEN /*reason_duplicate*/ END AS reason,
        attempts + fresh::integer AS attempts_used,
        CASE WHEN fresh THEN coalesce(now - make_interval(secs => handled_seconds), claimed_at) END AS started_at
    FROM acked CROSS JOIN moment
),
/*history of ended*/
-- Each schedule is the source of its messages. They are counted together under one of the sources.
SELECT
    tenant, queue_id, type, min(source) AS source, array_agg(number) AS numbers,
    array_agg(number) FILTER (WHERE NOT fresh) AS doubles
FROM acked
GROUP BY tenant, queue_id, type, schedule_id IS NOT NULL, CASE WHEN schedule_id IS NULL THEN source END
