-- Counts the deliveries published to an endpoint since a time: waiting, delivered, dead. Each count reads an index.
SELECT undelivered - dead AS waiting, published - undelivered AS delivered, dead
FROM (
    SELECT
        (
            SELECT count(*) FROM tickwork_deliveries
            WHERE endpoint_id = ?1 AND published_at >= ?2
        ) AS published,
        (
            SELECT count(*) FROM tickwork_deliveries
            WHERE endpoint_id = ?1 AND published_at >= ?2 AND delivered_at IS NULL
        ) AS undelivered,
        (
            SELECT count(*) FROM tickwork_deliveries
            WHERE endpoint_id = ?1 AND published_at >= ?2 AND dead_at IS NOT NULL
        ) AS dead
) AS counted
