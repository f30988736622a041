-- Counts emails that a tenant is about to send, if its quota for the day allows them. Returns that day and the number of
-- emails sent on it, or nothing.
UPDATE tickwork_tenants
SET emails_day = today, emails_sent = iif(emails_day = today, emails_sent, 0) + ?2
FROM (SELECT ?3 / 86400000000 AS today)
WHERE id = ?1 AND iif(emails_day = today, emails_sent, 0) + ?2 <= coalesce(emails_per_day, 0)
RETURNING emails_day, emails_sent
