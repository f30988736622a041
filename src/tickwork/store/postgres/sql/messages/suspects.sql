-- Which of these queues have a message that must run without others and may be claimed now.
SELECT q.id
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment, tickwork_queues AS q
WHERE q.id = ANY ($2::uuid[]) AND NOT q.paused AND EXISTS (
    SELECT FROM tickwork_messages AS m
    WHERE m.queue_id = q.id AND m.state = 'ready' AND m.lost >= /*lost_claims_separate*/ AND m.format <= /*format*/
        AND m.visible_at <= moment.now AND (m.expires_at IS NULL OR m.expires_at > moment.now)
        AND NOT EXISTS (SELECT FROM tickwork_tenants WHERE id = m.tenant AND suspended)
        AND NOT EXISTS (SELECT FROM tickwork_meta WHERE paused_at IS NOT NULL)
)
