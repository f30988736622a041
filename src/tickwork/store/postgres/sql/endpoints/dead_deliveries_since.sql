-- How many of the newest dead deliveries of a tenant died after a time, up to a limit, and when the first did.
SELECT count(*) AS dead, min(dead_at) AS since
FROM (
    SELECT dead_at FROM (
        SELECT dead_at FROM tickwork_deliveries
        WHERE tenant = $1 AND dead_at IS NOT NULL
        ORDER BY published_at DESC
        LIMIT $4
    ) AS newest
    WHERE dead_at > $2
    LIMIT $3
) AS lately
