-- Takes ready messages whose own expiry has passed, as if claimed by a holder that buries them.
UPDATE messages SET state = 'claimed', claim = claim + 1, holder = $2
WHERE (tenant, id) IN (
    SELECT tenant, id FROM messages
    WHERE state = 'ready' AND expires_at <= (SELECT coalesce($1::timestamptz, clock_timestamp()))
    ORDER BY expires_at
    LIMIT $3
    FOR UPDATE SKIP LOCKED
)
RETURNING tenant, id, claim, holder
