-- What is written of messages that a statement ends, which are the rows of the query in the placeholder: a note for each
-- queue and type, which is rolled up later, and the records that their queues keep, in chunks.
history_queues AS MATERIALIZED (
    -- The names of the queues of these messages, and what they keep.
    SELECT queue.id, queue.name, kept.history, kept.seconds,
        (queue.settings ->> 'history_bodies')::boolean IS TRUE AS has_bodies,
        -- Chunks are dropped together: those of an hour, or of a day if they are kept long.
        CASE WHEN kept.seconds <= /*hourly_history_seconds*/ THEN interval '1 hour' ELSE interval '1 day' END AS width
    FROM unnest(ARRAY (SELECT DISTINCT queue_id FROM /*queue*/)) AS used (id)
    CROSS JOIN LATERAL (SELECT id, name, settings FROM tickwork_queues WHERE id = used.id LIMIT 1) AS queue
    CROSS JOIN tickwork_meta AS meta
    CROSS JOIN LATERAL (
        SELECT
            coalesce(
                queue.settings ->> 'history',
                CASE
                    WHEN meta.history = 'all' AND queue.name IN (/*hidden_queues*/) THEN 'failures'
                    ELSE meta.history
                END
            ) AS history,
            coalesce((queue.settings ->> 'history_seconds')::integer, meta.history_seconds) AS seconds
    ) AS kept
),
ended_counts AS (
    INSERT INTO tickwork_ended_counts (ended_at, tenant, queue, type, done, failed, discarded, waits, runs)
    SELECT
        e.ended_at, e.tenant, kept.name, e.type,
        count(*) FILTER (WHERE e.outcome = 'done'), count(*) FILTER (WHERE e.outcome IN ('dead', 'expired')),
        count(*) FILTER (WHERE e.outcome = 'discarded'),
        array_agg(greatest(date_part('epoch', e.started_at - e.visible_at), 0)::real)
            FILTER (WHERE e.started_at IS NOT NULL),
        array_agg(greatest(date_part('epoch', e.ended_at - e.started_at), 0)::real)
            FILTER (WHERE e.started_at IS NOT NULL)
    FROM /*queue*/ AS e JOIN history_queues AS kept ON kept.id = e.queue_id
    GROUP BY e.ended_at, e.tenant, kept.name, e.type
),
history_chunks AS (
    INSERT INTO tickwork_message_history (ended_at, drop_at, tenant, queue, node, records, marks)
    SELECT
        e.ended_at,
        date_bin(kept.width, e.ended_at + make_interval(secs => kept.seconds), 'epoch') + kept.width,
        e.tenant, kept.name,
        (SELECT name FROM tickwork_nodes WHERE id = e.holder),
        array_agg(
            ROW (
                e.id, e.outcome, e.reason, e.attempts_used, e.sent_at, e.started_at, e.type, e.source, e.key,
                e.event_id, e.correlation_id, e.causation_id, e.batch_id, e.schedule_id, e.slot,
                CASE WHEN e.slot IS NOT NULL THEN e.run END,
                CASE WHEN kept.has_bodies THEN e.content_type END, CASE WHEN kept.has_bodies THEN e.body END
            )::tickwork_ended
        ),
        array_agg(DISTINCT hashtext(left(e.id::text, /*mark_characters*/)))
            || coalesce(
                array_agg(DISTINCT hashtext('c:' || e.correlation_id)) FILTER (WHERE e.correlation_id IS NOT NULL), '{}'
            )
            || coalesce(array_agg(DISTINCT hashtext('e:' || e.event_id)) FILTER (WHERE e.event_id IS NOT NULL), '{}')
            || coalesce(array_agg(DISTINCT hashtext('k:' || e.key)) FILTER (WHERE e.key IS NOT NULL), '{}')
    FROM /*queue*/ AS e JOIN history_queues AS kept ON kept.id = e.queue_id
    WHERE kept.history = 'all' OR (kept.history = 'failures' AND e.outcome <> 'done')
    GROUP BY e.tenant, kept.id, kept.name, kept.seconds, kept.width, e.holder, e.ended_at
)
