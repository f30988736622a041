-- Counts emails that a tenant is about to send, if its quota for the day allows them. Returns that day and the number of
-- emails sent on it, or nothing. Concurrent sends wait for each other.
UPDATE tickwork_tenants
SET emails_day = today, emails_sent = CASE WHEN emails_day = today THEN emails_sent ELSE 0 END + $2
FROM (
    SELECT floor(extract(epoch FROM coalesce($3::timestamptz, clock_timestamp())) / 86400)::integer AS today
) AS moment
WHERE id = $1
    AND CASE WHEN emails_day = today THEN emails_sent ELSE 0 END + $2 <= coalesce(emails_per_day, 0)
RETURNING emails_day, emails_sent
