-- Takes back the count of emails of a day that were not sent.
UPDATE tickwork_tenants SET emails_sent = emails_sent - $2 WHERE id = $1 AND emails_day = $3 AND emails_sent >= $2
