-- Counts emails that a tenant is about to send, if its quota for the day `?3` allows them. Returns that day and the
-- number of emails sent on it, or nothing.
UPDATE tickwork_tenants SET emails_day = ?3, emails_sent = iif(emails_day = ?3, emails_sent, 0) + ?2
WHERE id = ?1 AND iif(emails_day = ?3, emails_sent, 0) + ?2 <= coalesce(emails_per_day, 0)
RETURNING emails_day, emails_sent
