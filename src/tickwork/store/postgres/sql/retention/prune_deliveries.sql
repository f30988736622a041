-- Deletes deliveries past their retention with their attempts, except for those that are waiting.
WITH old AS MATERIALIZED (
    SELECT d.at FROM tickwork_tenants AS t
    CROSS JOIN LATERAL (
        SELECT d.ctid AS at FROM tickwork_deliveries AS d
        WHERE d.tenant = t.id AND d.published_at <= $1 AND NOT EXISTS (
            SELECT FROM tickwork_messages AS m WHERE m.tenant = d.tenant AND m.id = d.message_id
        )
        ORDER BY d.published_at
        LIMIT $2
    ) AS d
    LIMIT $2
),
gone AS (
    DELETE FROM tickwork_deliveries WHERE ctid = ANY (ARRAY (SELECT at FROM old))
    RETURNING id
),
emptied AS (
    DELETE FROM tickwork_delivery_attempts AS a USING gone WHERE a.delivery_id = gone.id
)
SELECT 1 FROM gone
