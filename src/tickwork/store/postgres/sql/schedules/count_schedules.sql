-- How many schedules of a tenant may still fire.
SELECT coalesce(sum(schedules), 0)::bigint AS schedules
FROM tickwork_schedule_counts WHERE tenant = $1
