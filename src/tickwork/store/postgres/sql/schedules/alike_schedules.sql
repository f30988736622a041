-- Active schedules that fire before an instant or fired after another, after a given schedule; alike
-- ones are counted together.
WITH page AS (
    SELECT s.tenant, s.id, s.name, s.queue, s.rule, s.shift, s.next_slot, s.last_slot,
        CASE WHEN strpos(s.rule, '"max_firings":null') > 0 THEN 0 ELSE s.fired END AS fired,
        CASE s.queue WHEN /*deliveries_queue*/ THEN convert_from(s.body, 'UTF8')::json -> 'target' END AS target
    FROM tickwork_schedules AS s
    WHERE s.tenant >= $1 AND s.tenant <= $2 AND (s.tenant, s.id) > ($3, $4) AND s.status = 'active'
        AND (s.next_slot IS NULL OR s.due_at < $5 OR s.last_slot > $6)
    ORDER BY s.tenant, s.id
    LIMIT $7
), found AS (
    SELECT *, target ->> 'type' AS kind, coalesce(
        target ->> 'endpoint', target ->> 'service', target ->> 'url'
    ) AS address
    FROM page
)
SELECT tenant, queue, kind, address, rule, shift, next_slot, last_slot, fired,
    (array_agg(id ORDER BY id DESC))[1] AS last_id, (array_agg(name ORDER BY id DESC))[1] AS name, count(*)
FROM found
GROUP BY tenant, queue, kind, address, rule, shift, next_slot, last_slot, fired
ORDER BY tenant, last_id
