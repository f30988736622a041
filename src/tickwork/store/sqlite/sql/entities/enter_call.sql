-- Stores a direct call of a living node (`?1`): claimed by it if the key is free, else blocked. Stores nothing
-- for a dead node, nor for a key that has too many messages.
INSERT INTO tickwork_messages (
    caller, tenant, queue_id, key, id, body, correlation_id, causation_id, hops, sent_at, visible_at,
    state, claim, holder, claimed_at
)
SELECT
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?10, CASE WHEN waiting THEN 'held' ELSE 'claimed' END,
    CASE WHEN waiting THEN 0 ELSE 1 END, CASE WHEN waiting THEN NULL ELSE ?1 END,
    CASE WHEN waiting THEN NULL ELSE ?10 END
FROM (
    SELECT count(*) AS waiting FROM (
        SELECT 1 FROM tickwork_messages WHERE queue_id = ?3 AND tenant = ?2 AND key = ?4 LIMIT ?11
    )
)
WHERE waiting < ?11 AND EXISTS (SELECT 1 FROM tickwork_nodes WHERE id = ?1 AND expires_at > ?10)
RETURNING state
