-- Deletes requests past their retention, the oldest first.
DELETE FROM tickwork_requests WHERE (tenant, key) IN (
    SELECT tenant, key FROM tickwork_requests
    WHERE started_at <= ?1
    ORDER BY started_at
    LIMIT ?2
)
