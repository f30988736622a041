-- Counts the attempts at the deliveries published to an endpoint since a time, and the failed ones, with the
-- 50th and the 95th percentile of their seconds.
SELECT count(*) AS attempts, count(kind) AS failed_attempts,
    min(took_seconds) FILTER (WHERE position * 100 >= total * 50) AS p50_seconds,
    min(took_seconds) FILTER (WHERE position * 100 >= total * 95) AS p95_seconds
FROM (
    SELECT a.kind, a.took_seconds, row_number() OVER (ORDER BY a.took_seconds) AS position,
        count(*) OVER () AS total
    FROM tickwork_deliveries AS d JOIN tickwork_delivery_attempts AS a ON a.delivery_id = d.id
    WHERE d.endpoint_id = ?2 AND +d.tenant = ?1 AND d.published_at >= ?3
) AS found
