-- Active schedules that fire before an instant or fired after another, after a given schedule; alike
-- ones are counted together.
SELECT tenant, queue, kind, address, rule, shift, next_slot, last_slot, fired, max(id) AS last_id, name, count(*)
FROM (
    SELECT tenant, id, name, queue, rule, shift, next_slot, last_slot,
        CASE WHEN instr(rule, '"max_firings":null') THEN 0 ELSE fired END AS fired,
        CASE queue WHEN /*deliveries_queue*/ THEN json_extract(CAST(body AS TEXT), '$.target.type') END AS kind,
        CASE queue WHEN /*deliveries_queue*/ THEN coalesce(
            json_extract(CAST(body AS TEXT), '$.target.endpoint'), json_extract(CAST(body AS TEXT), '$.target.service'),
            json_extract(CAST(body AS TEXT), '$.target.url')
        ) END AS address
    FROM tickwork_schedules
    WHERE tenant >= ?1 AND tenant <= ?2 AND (tenant, id) > (?3, ?4) AND status = 'active'
        AND (next_slot IS NULL OR due_at < ?5 OR last_slot > ?6)
    ORDER BY tenant, id
    LIMIT ?7
)
GROUP BY tenant, queue, kind, address, rule, shift, next_slot, last_slot, fired
ORDER BY tenant, last_id
