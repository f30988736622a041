-- Counts the schedules of each tenant that may still fire.
INSERT INTO tickwork_schedule_counts (tenant, stripe, schedules)
SELECT tenant, 0, count(*) FROM tickwork_schedules
WHERE status IN ('active', 'paused', 'parked')
GROUP BY tenant
