-- Deletes rows of minutes that began before a time.
DELETE FROM tickwork_performance WHERE (tenant, width, period, queue, type) IN (
    SELECT tenant, width, period, queue, type FROM tickwork_performance
    WHERE width = 'minute' AND period <= $1 ORDER BY period LIMIT $2
)
