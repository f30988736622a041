-- Messages that must run without others, of one tenant or all: the oldest visible suspect that may share,
-- with others of its tenant that may share; or, if there is none, the oldest that must run alone. Leaves out
-- suspended tenants, and returns at most the tenant's limit (`?4`). Returns one text.
WITH first AS MATERIALIZED (
    SELECT m.tenant, m.lost >= /*lost_claims_alone*/ AS is_alone, coalesce(?4 - (
            SELECT count(*) FROM tickwork_messages
            WHERE queue_id = ?1 AND tenant = m.tenant AND state = 'claimed'
                AND is_counted = 1
        ), ?5) AS room
    FROM tickwork_messages AS m
    WHERE m.queue_id = ?1 AND m.state = 'ready' AND m.lost >= /*lost_claims_separate*/ AND m.visible_at <= ?3
        AND (m.expires_at IS NULL OR m.expires_at > ?3) AND (?2 IS NULL OR m.tenant = ?2)
        AND m.format <= /*format*/
        AND NOT EXISTS (SELECT 1 FROM tickwork_tenants WHERE id = m.tenant AND suspended = 1)
        AND NOT EXISTS (SELECT 1 FROM tickwork_meta WHERE paused_at IS NOT NULL)
        AND room > 0
    ORDER BY is_alone, m.visible_at, m.id
    LIMIT 1
)
SELECT '[' || coalesce(group_concat(said), '') || ']' FROM (
    SELECT /*claimed*/ AS said FROM tickwork_messages AS m
    WHERE m.queue_id = ?1 AND m.state = 'ready' AND m.lost >= /*lost_claims_separate*/ AND m.visible_at <= ?3
        AND (m.expires_at IS NULL OR m.expires_at > ?3) AND m.format <= /*format*/
        AND m.tenant = (SELECT tenant FROM first)
        AND (m.lost >= /*lost_claims_alone*/) = (SELECT is_alone FROM first)
    ORDER BY m.visible_at, m.id
    LIMIT coalesce((SELECT iif(is_alone, 1, min(room, ?5)) FROM first), 0)
)
