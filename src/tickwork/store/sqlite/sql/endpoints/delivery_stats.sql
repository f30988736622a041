-- Counts the deliveries published to an endpoint since a time: waiting, delivered, dead.
SELECT count(*) FILTER (WHERE delivered_at IS NULL AND has_message),
    count(*) FILTER (WHERE delivered_at IS NOT NULL),
    count(*) FILTER (WHERE delivered_at IS NULL AND NOT has_message)
FROM (
    SELECT d.delivered_at, d.delivered_at IS NULL AND EXISTS (
            SELECT 1 FROM tickwork_messages WHERE tenant = d.tenant AND id = d.message_id
        ) AS has_message
    FROM tickwork_deliveries AS d
    WHERE d.endpoint_id = ?2 AND +d.tenant = ?1 AND d.published_at >= ?3
) AS found
