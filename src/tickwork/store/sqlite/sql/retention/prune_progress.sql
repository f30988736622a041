-- Deletes progress past its retention, the oldest first.
DELETE FROM tickwork_progress WHERE (tenant, work, name) IN (
    SELECT tenant, work, name FROM tickwork_progress
    WHERE recorded_at <= ?1
    ORDER BY recorded_at
    LIMIT ?2
)
