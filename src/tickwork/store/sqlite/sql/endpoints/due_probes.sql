-- Endpoints whose breaker may be probed, and the message that each pulled forward last.
SELECT id, tenant, probe_message_id FROM tickwork_endpoints
WHERE probe_at IS NOT NULL AND probe_at <= ?1
ORDER BY probe_at
LIMIT ?2
