-- When the next lease, of a node or a pull, or the next waiting message expires, or the breaker of an endpoint may
-- be probed.
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now)
SELECT least(
    (SELECT min(expires_at) FROM tickwork_nodes WHERE expires_at > (SELECT now FROM moment)),
    (
        SELECT min(lease_until) FROM tickwork_messages
        WHERE state = 'claimed' AND lease_until IS NOT NULL
            AND lease_until > (SELECT now FROM moment)
    ),
    (
        SELECT min(expires_at) FROM tickwork_messages
        WHERE state <> 'claimed' AND expires_at IS NOT NULL
            AND expires_at > (SELECT now FROM moment)
    ),
    (
        SELECT min(probe_at) FROM tickwork_endpoints
        WHERE probe_at IS NOT NULL AND probe_at > (SELECT now FROM moment)
    )
)
