-- A queue, if it has a message that must run without others and may be claimed now.
SELECT q.id FROM tickwork_queues AS q
WHERE q.id = ?2 AND q.paused = 0 AND EXISTS (
    SELECT 1 FROM tickwork_messages AS m
    WHERE m.queue_id = ?2 AND m.state = 'ready' AND m.lost >= /*lost_claims_separate*/ AND m.visible_at <= ?1
        AND (m.expires_at IS NULL OR m.expires_at > ?1) AND m.format <= /*format*/
        AND NOT EXISTS (SELECT 1 FROM tickwork_tenants WHERE id = m.tenant AND suspended = 1)
        AND NOT EXISTS (SELECT 1 FROM tickwork_meta WHERE paused_at IS NOT NULL)
)
