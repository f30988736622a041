-- Makes the first message of each key ready if it was blocked, or claimed by its caller if it is a direct call; deletes
-- keys without messages. If the first is a send that waits for its time, the earliest direct call moves before it, and
-- the send is blocked. A slot that was blocked by a message that ran is not missed: its grace starts now. Returns whom
-- to wake.
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
head AS MATERIALIZED (
    SELECT freed.tenant, freed.queue_id, freed.key, freed.has_run, first.at, first.state, first.place, first.is_waiting
    FROM unnest($2::text[], $3::uuid[], $4::text[], $5::boolean[])
        AS freed (tenant, queue_id, key, has_run)
    LEFT JOIN LATERAL (
        SELECT
            ctid AS at, state, place,
            caller IS NULL AND state <> 'claimed' AND visible_at > (SELECT now FROM moment) AS is_waiting
        FROM tickwork_messages
        WHERE queue_id = freed.queue_id AND tenant = freed.tenant AND key = freed.key
        ORDER BY place
        LIMIT 1
    ) AS first ON true
),
passing AS MATERIALIZED (
    SELECT head.tenant, head.queue_id, head.key, head.at AS waiting, head.state, head.place, call.at
    FROM head
    CROSS JOIN LATERAL (
        SELECT ctid AS at FROM tickwork_messages
        WHERE queue_id = head.queue_id AND tenant = head.tenant AND key = head.key
            AND caller IS NOT NULL AND state = 'held'
        ORDER BY place
        LIMIT 1
    ) AS call
    WHERE head.is_waiting
),
free AS MATERIALIZED (
    -- A worker claims without locking the key. It has the send if it has locked it: then no call passes.
    SELECT ctid AS at FROM tickwork_messages
    WHERE ctid = ANY (ARRAY (SELECT waiting FROM passing WHERE state = 'ready'))
        -- IS NOT DISTINCT FROM keeps the planner from reading all ready messages.
        AND (state, visible_at > (SELECT now FROM moment)) IS NOT DISTINCT FROM ('ready', true)
    FOR UPDATE SKIP LOCKED
),
ahead AS MATERIALIZED (
    SELECT at, place, waiting, state FROM passing WHERE state = 'held' OR waiting IN (SELECT at FROM free)
),
stopped AS (
    UPDATE tickwork_messages SET state = 'held'
    WHERE ctid = ANY (ARRAY (SELECT waiting FROM ahead WHERE state = 'ready'))
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
    claimed_at = CASE WHEN m.caller IS NOT NULL THEN (SELECT now FROM moment) END,
    visible_at = greatest(m.visible_at, (SELECT now FROM moment)),
    place = coalesce((SELECT ahead.place - 1 FROM ahead WHERE ahead.at = m.ctid), m.place),
    grace_seconds = CASE WHEN m.ctid = ANY (ARRAY (SELECT at FROM head WHERE has_run)) THEN
        m.grace_seconds + greatest(ceil(extract(epoch FROM (SELECT now FROM moment) - m.due_at)), 0)::integer
    ELSE m.grace_seconds END
WHERE m.ctid = ANY (ARRAY (
        SELECT at FROM head WHERE state = 'held' AND at NOT IN (SELECT waiting FROM passing)
        UNION ALL
        SELECT at FROM ahead
    )) AND m.state = 'held'
RETURNING coalesce(m.caller, m.queue_id) AS topic
