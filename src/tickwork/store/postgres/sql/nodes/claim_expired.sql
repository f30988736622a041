-- Claims messages for the reaper that are still expired and that no other transaction is claiming.
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
picked AS MATERIALIZED (
    SELECT found.at
    FROM moment, unnest($3::text[], $4::uuid[]) AS given (tenant, id)
    CROSS JOIN LATERAL (
        SELECT m.ctid AS at FROM tickwork_messages AS m
        WHERE m.tenant = given.tenant AND m.id = given.id AND m.state <> 'claimed' AND (
            m.expires_at <= moment.now
            OR (
                m.state = 'ready' AND m.visible_at <= moment.now - (
                    SELECT make_interval(secs => retention_seconds) FROM tickwork_queues
                    WHERE tickwork_queues.id = m.queue_id
                )
            )
        )
        FOR UPDATE SKIP LOCKED
    ) AS found
)
UPDATE tickwork_messages AS m SET state = 'claimed', claim = m.claim + 1, holder = $2
WHERE m.ctid = ANY (ARRAY (SELECT at FROM picked))
RETURNING m.tenant, m.id, m.claim, m.holder, m.schedule_id, m.run, m.terms,
    m.slot, m.attempts, m.place,
    -- A copy that `tickwork_send` stored although its queue was full: it has expired when it was sent, and says why.
    CASE WHEN m.expires_at <= m.sent_at THEN m.last_error END AS surplus
