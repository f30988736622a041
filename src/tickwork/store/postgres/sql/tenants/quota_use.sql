-- What a tenant has used of its quotas: schedules that may still fire, emails sent today.
SELECT
    (SELECT coalesce(sum(schedules), 0)::bigint FROM tickwork_schedule_counts WHERE tenant = $1) AS schedules_max,
    CASE
        WHEN emails_day = floor(extract(epoch FROM coalesce($2::timestamptz, clock_timestamp())) / 86400)::integer
            THEN emails_sent
        ELSE 0
    END AS emails_per_day
FROM tickwork_tenants WHERE id = $1
