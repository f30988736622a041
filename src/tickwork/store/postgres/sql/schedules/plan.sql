-- Carries out plans under the tokens of their shards: advances schedules, stores slots as messages and
-- records skipped slots. A plan has no effect if its schedule has changed. Ordered slots need a transaction
-- that has locked their keys (`$32`).
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
granted AS MATERIALIZED (
    -- Locked in a fixed order: a shard must not be planned for while another node takes it.
    SELECT led.shard
    FROM (
        SELECT * FROM unnest($2::smallint[], $3::bigint[]) AS given (shard, token) ORDER BY shard
    ) AS given
    CROSS JOIN LATERAL (
        SELECT shard FROM tickwork_shards
        WHERE shard = given.shard AND token = given.token AND node IS NOT NULL
        FOR SHARE
    ) AS led
),
found AS MATERIALIZED (
    -- One index lookup per row, in the given order, whatever the planner's statistics.
    SELECT given.*, found.at, found.queue_id, found.is_keyed, given.last_fire >= given.first_fire AS fires
    FROM unnest(
        $4::text[], $5::uuid[], $6::smallint[], $7::bigint[], $8::timestamptz[], $9::text[],
        $10::timestamptz[], $11::timestamptz[], $12::timestamptz[], $13::text[], $14::integer[],
        $15::integer[], $16::integer[], $17::integer[]
    ) WITH ORDINALITY AS given (
        tenant, id, shard, version, next_slot, status, then_slot, then_due_at, look_at, error,
        first_fire, last_fire, first_skip, last_skip, number
    )
    CROSS JOIN LATERAL (
        SELECT ctid AS at, queue_id, overlap IN (/*ordered*/) AS is_keyed
        FROM tickwork_schedules
        WHERE tenant = given.tenant AND id = given.id AND bucket / /*buckets_per_shard*/ = given.shard
            AND version = given.version AND next_slot = given.next_slot AND status = 'active'
        LIMIT 1
    ) AS found
    WHERE given.shard IN (SELECT shard FROM granted)
),
target AS MATERIALIZED (
    -- Locked, so that no queue is deleted while a message is being stored in it.
    SELECT id, is_capped FROM tickwork_queues
    WHERE id IN (SELECT queue_id FROM found WHERE fires)
    FOR KEY SHARE
),
moved AS (
    UPDATE tickwork_schedules AS s
    SET next_slot = found.then_slot, due_at = coalesce(found.then_due_at, found.then_slot),
        look_at = found.look_at, status = found.status,
        fired = s.fired + 1 + found.last_fire - found.first_fire,
        changed_at = CASE WHEN found.status = 'active' THEN s.changed_at ELSE moment.now END,
        last_slot = CASE WHEN found.fires
            THEN greatest(s.last_slot, ($19::timestamptz[])[found.last_fire]) ELSE s.last_slot
        END,
        last_error = coalesce(found.error, s.last_error)
    FROM moment, found
    WHERE s.ctid = found.at
        -- IS NOT DISTINCT FROM keeps the planner from joining by these columns. They are compared again
        -- because not every server checks that a ctid still holds the same row after a lock wait.
        AND (s.version, s.next_slot, s.status)
            IS NOT DISTINCT FROM (found.version, found.next_slot, 'active'::text)
        AND (
            NOT found.fires
            OR (found.is_keyed = $32 AND found.queue_id IN (SELECT id FROM target))
        )
    RETURNING found.number, found.first_fire, found.last_fire, found.first_skip, found.last_skip,
        found.fires, found.is_keyed, found.error, found.status, s.tenant, s.id, s.queue_id, s.type, s.content_type, s.priority,
        s.grace_seconds, s.expires_after_seconds, s.terms, s.idempotency_key, s.receiver, s.body
),
stored AS (
    INSERT INTO tickwork_messages (
        tenant, queue_id, id, priority, visible_at, sent_at, expires_at, key, type, source, schedule_id,
        slot, run, catch_up, due_at, grace_seconds, terms, idempotency_base, content_type, state, place,
        receiver, body
    )
    SELECT
        moved.tenant, moved.queue_id, ($18::uuid[])[n],
        CASE WHEN ($22::boolean[])[n] THEN greatest(moved.priority - /*catch_up_step*/, 0) ELSE moved.priority END,
        due.visible_at, moment.now,
        due.at + make_interval(secs => moved.expires_after_seconds),
        CASE WHEN moved.is_keyed THEN 'schedule:' || moved.id END, moved.type,
        'sch_' || replace(moved.id::text, '-', ''), moved.id,
        ($19::timestamptz[])[n], ($23::integer[])[n], ($22::boolean[])[n], due.at,
        CASE WHEN NOT ($22::boolean[])[n] THEN moved.grace_seconds END,
        CASE WHEN ($24::boolean[])[n]
            THEN (coalesce(moved.terms, '{}')::jsonb || '{"is_last": true}')::text
            ELSE moved.terms
        END,
        moved.idempotency_key, moved.content_type, coalesce(($25::text[])[n], 'ready'), ($26::bigint[])[n],
        moved.receiver, moved.body
    FROM moment, moved
    CROSS JOIN LATERAL generate_series(moved.first_fire, moved.last_fire) AS fire (n)
    CROSS JOIN LATERAL (
        SELECT coalesce(($20::timestamptz[])[n], ($19::timestamptz[])[n]) AS at,
            coalesce(
                ($21::timestamptz[])[n], ($20::timestamptz[])[n], ($19::timestamptz[])[n]
            ) AS visible_at
    ) AS due
    ON CONFLICT DO NOTHING
),
recorded AS (
    INSERT INTO tickwork_firings (
        tenant, id, schedule_id, slot, last_slot, run, attempt, status, reason, due_at, started_at,
        finished_at, excerpt, count
    )
    SELECT
        moved.tenant, ($27::uuid[])[n], moved.id, ($28::timestamptz[])[n],
        CASE WHEN ($30::integer[])[n] > 1 THEN ($29::timestamptz[])[n] END, 0, 0, 'skipped',
        ($31::text[])[n], ($28::timestamptz[])[n], moment.now, moment.now, left(moved.error, 2000),
        ($30::integer[])[n]
    FROM moment, moved
    CROSS JOIN LATERAL generate_series(moved.first_skip, moved.last_skip) AS skip (n)
),
counted AS (
    INSERT INTO tickwork_backlogs AS known (queue_id, stripe, bytes)
    SELECT moved.queue_id, pg_current_xact_id()::text::bigint % /*stripes*/,
        sum(octet_length(moved.body)::bigint * (1 + moved.last_fire - moved.first_fire))
    FROM moved
    WHERE moved.fires AND moved.queue_id IN (SELECT id FROM target WHERE is_capped)
    GROUP BY moved.queue_id
    ORDER BY moved.queue_id
    ON CONFLICT (queue_id, stripe) DO UPDATE SET bytes = known.bytes + excluded.bytes
),
fewer AS (
    INSERT INTO tickwork_schedule_counts AS known (tenant, stripe, schedules)
    SELECT moved.tenant, pg_current_xact_id()::text::bigint % /*stripes*/, -count(*)
    FROM moved WHERE moved.status = 'completed'
    GROUP BY moved.tenant
    ORDER BY moved.tenant
    ON CONFLICT (tenant, stripe) DO UPDATE SET schedules = known.schedules + excluded.schedules
)
SELECT 'done' AS became, number, queue_id, type, now FROM moved, moment
UNION ALL
SELECT 'led', shard, NULL, NULL, now FROM granted, moment
UNION ALL
SELECT CASE WHEN queue_id IN (SELECT id FROM target) THEN 'keyed' ELSE 'no_queue' END, number,
    queue_id, NULL, NULL
FROM found
WHERE fires AND (is_keyed <> $32 OR queue_id NOT IN (SELECT id FROM target))
