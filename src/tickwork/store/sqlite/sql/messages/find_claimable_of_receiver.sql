-- The next deliveries of one tenant, receiver and priority that may be claimed in a batch, oldest visible first, as
-- one text.
SELECT '[' || coalesce(group_concat(said), '') || ']' FROM (
    SELECT /*claimed*/ AS said FROM tickwork_messages AS m
    WHERE m.queue_id = ?1 AND m.state = 'ready' AND m.tenant = ?2 AND m.receiver = ?6 AND m.priority = ?3
        AND m.visible_at <= ?4 AND m.lost < /*lost_claims_separate*/ AND (m.expires_at IS NULL OR m.expires_at > ?4)
        AND m.format <= /*format*/
        AND NOT EXISTS (SELECT 1 FROM tickwork_tenants WHERE id = ?2 AND suspended = 1)
        AND NOT EXISTS (SELECT 1 FROM tickwork_meta WHERE paused_at IS NOT NULL)
    ORDER BY m.visible_at, m.id
    LIMIT ?5
)
