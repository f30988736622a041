-- Subscribes a queue, once. Returns whether it is subscribed, which is false beyond the limit.
WITH known AS MATERIALIZED (
    SELECT types, queue_id FROM tickwork_subscriptions WHERE tenant = $1
    UNION ALL
    SELECT types, queue_id FROM tickwork_subscriptions WHERE $1::text IS NULL AND tenant IS NULL
),
added AS (
    INSERT INTO tickwork_subscriptions (tenant, types, queue_id)
    SELECT $1, $2, $3 WHERE (SELECT count(*) FROM known) < $4
    ON CONFLICT DO NOTHING
)
SELECT EXISTS (SELECT FROM known WHERE types = $2 AND queue_id = $3)
    OR (SELECT count(*) FROM known) < $4
