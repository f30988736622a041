-- Endpoints whose breaker may be probed, the message that each pulled forward last, and when that was due.
SELECT id, tenant, probe_message_id, probe_back_at FROM tickwork_endpoints
WHERE probe_at IS NOT NULL AND probe_at <= ?1
ORDER BY probe_at
LIMIT ?2
