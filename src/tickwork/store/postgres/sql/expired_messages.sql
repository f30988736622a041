-- Takes ready messages whose own expiry has passed, for the reaper to bury.
WITH picked AS MATERIALIZED (
    SELECT ctid AS at FROM tickwork_messages
    WHERE state = 'ready' AND expires_at <= (SELECT coalesce($1::timestamptz, clock_timestamp()))
    ORDER BY expires_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
)
UPDATE tickwork_messages AS m SET state = 'claimed', claim = m.claim + 1, holder = $2
WHERE m.ctid = ANY (ARRAY (SELECT at FROM picked))
RETURNING m.tenant, m.id, m.claim, m.holder
