-- When the next lease, of a node or a pull, or the next waiting message expires, or the breaker of an endpoint may
-- be probed.
SELECT min(at) FROM (
    SELECT min(expires_at) AS at FROM tickwork_nodes WHERE expires_at > ?1
    UNION ALL
    SELECT min(lease_until) FROM tickwork_messages
    WHERE state = 'claimed' AND lease_until IS NOT NULL AND lease_until > ?1
    UNION ALL
    SELECT min(expires_at) FROM tickwork_messages
    WHERE state <> 'claimed' AND expires_at IS NOT NULL AND expires_at > ?1
    UNION ALL
    SELECT min(probe_at) FROM tickwork_endpoints WHERE probe_at IS NOT NULL AND probe_at > ?1
)
