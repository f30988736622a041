-- What a tenant has used of its quotas: schedules that may still fire, emails sent today.
SELECT schedules AS schedules_max, iif(emails_day = ?2 / 86400000000, emails_sent, 0) AS emails_per_day
FROM tickwork_tenants WHERE id = ?1
