-- Makes the earliest message of each key ready if it was blocked, or claimed by its caller if it is a direct
-- call; deletes keys without messages. A slot that was blocked by a message that ran is not missed: its grace
-- starts now. Returns whom to wake.
WITH head AS MATERIALIZED (
    SELECT freed.tenant, freed.queue_id, freed.key, freed.has_run, first.at, first.state
    FROM unnest($2::text[], $3::uuid[], $4::text[], $5::boolean[])
        AS freed (tenant, queue_id, key, has_run)
    LEFT JOIN LATERAL (
        SELECT ctid AS at, state FROM tickwork_messages
        WHERE queue_id = freed.queue_id AND tenant = freed.tenant AND key = freed.key
        ORDER BY place
        LIMIT 1
    ) AS first ON true
),
emptied AS (
    -- One index lookup per key, whatever the planner's statistics. The keys are locked.
    DELETE FROM tickwork_keys WHERE ctid = ANY (ARRAY (
        SELECT known.at FROM head
        CROSS JOIN LATERAL (
            SELECT ctid AS at FROM tickwork_keys
            WHERE tenant = head.tenant AND queue_id = head.queue_id AND key = head.key
            LIMIT 1
        ) AS known
        WHERE head.at IS NULL
    ))
)
UPDATE tickwork_messages AS m
SET state = CASE WHEN m.caller IS NULL THEN 'ready' ELSE 'claimed' END,
    claim = m.claim + (m.caller IS NOT NULL)::integer, holder = m.caller,
    claimed_at = CASE WHEN m.caller IS NOT NULL THEN coalesce($1::timestamptz, clock_timestamp()) END,
    visible_at = greatest(m.visible_at, coalesce($1::timestamptz, clock_timestamp())),
    grace_seconds = CASE WHEN m.ctid = ANY (ARRAY (SELECT at FROM head WHERE has_run)) THEN
        m.grace_seconds + greatest(
            ceil(extract(epoch FROM coalesce($1::timestamptz, clock_timestamp()) - m.due_at)), 0
        )::integer
    ELSE m.grace_seconds END
WHERE m.ctid = ANY (ARRAY (SELECT at FROM head WHERE state = 'held')) AND m.state = 'held'
RETURNING coalesce(m.caller, m.queue_id) AS topic
