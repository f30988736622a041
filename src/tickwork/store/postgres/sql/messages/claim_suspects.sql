-- Claims messages that must run without others: the oldest suspect that may share, with others of its tenant
-- that may share; or, if there is none, the oldest that must run alone.
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
node AS MATERIALIZED (
    SELECT id FROM tickwork_nodes WHERE id = $3 AND expires_at > (SELECT now FROM moment) FOR KEY SHARE
),
first AS MATERIALIZED (
    SELECT m.tenant, m.lost >= /*lost_claims_alone*/ AS is_alone FROM tickwork_messages AS m
    WHERE m.queue_id = $2 AND m.state = 'ready' AND m.lost >= /*lost_claims_separate*/ AND m.format <= /*format*/
        AND m.visible_at <= (SELECT now FROM moment)
        AND (m.expires_at IS NULL OR m.expires_at > (SELECT now FROM moment))
        AND ($5::text IS NULL OR m.tenant = $5)
        AND ($4::float8 IS NOT NULL OR EXISTS (SELECT FROM node))
        AND EXISTS (SELECT FROM tickwork_queues WHERE id = $2 AND NOT paused AND is_governed = $6)
        AND NOT EXISTS (SELECT FROM tickwork_tenants WHERE id = m.tenant AND suspended)
        AND NOT EXISTS (SELECT FROM tickwork_meta WHERE paused_at IS NOT NULL)
        AND ($7::integer IS NULL OR $7 > (
            SELECT count(*) FROM tickwork_messages AS claimed
            WHERE claimed.queue_id = $2 AND claimed.tenant = m.tenant AND claimed.state = 'claimed'
                AND claimed.is_counted
        ))
    ORDER BY m.lost >= /*lost_claims_alone*/, m.visible_at, m.id
    LIMIT 1
    FOR UPDATE SKIP LOCKED
),
picked AS MATERIALIZED (
    SELECT m.ctid AS at FROM tickwork_messages AS m
    WHERE m.queue_id = $2 AND m.state = 'ready' AND m.lost >= /*lost_claims_separate*/ AND m.format <= /*format*/
        AND m.visible_at <= (SELECT now FROM moment)
        AND (m.expires_at IS NULL OR m.expires_at > (SELECT now FROM moment))
        AND m.tenant = (SELECT tenant FROM first) AND (m.lost >= /*lost_claims_alone*/) = (SELECT is_alone FROM first)
    ORDER BY m.visible_at, m.id
    LIMIT (
        SELECT CASE WHEN first.is_alone THEN 1 ELSE least($8::integer, $7 - (
            SELECT count(*) FROM tickwork_messages AS claimed
            WHERE claimed.queue_id = $2 AND claimed.tenant = first.tenant
                AND claimed.state = 'claimed' AND claimed.is_counted
        )) END FROM first
    )
    FOR UPDATE SKIP LOCKED
)
UPDATE tickwork_messages AS m
SET state = 'claimed', claim = m.claim + 1, holder = $3, is_counted = $7 IS NOT NULL,
    claimed_at = (SELECT now FROM moment), lease_until = (SELECT now FROM moment) + make_interval(secs => $4),
    catch_up = m.catch_up OR (/*on_time_until*/ < (SELECT now FROM moment)) IS TRUE
WHERE m.ctid = ANY (ARRAY (SELECT at FROM picked))
RETURNING /*columns*/, m.event_id IS NOT NULL AND (
    -- No EXISTS: planned while the table is small, it reads the whole table, and that plan is cached.
    SELECT true FROM tickwork_events_done AS done
    WHERE done.tenant = m.tenant AND done.queue_id = m.queue_id AND done.event_id = m.event_id
) IS TRUE AS is_done, m.ctid AS at
