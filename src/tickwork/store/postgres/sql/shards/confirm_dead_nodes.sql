-- Ends expired leases for good. A concurrent heartbeat either came first or finds the lease ended. Returns
-- the nodes that are alive after all.
WITH taken AS MATERIALIZED (
    SELECT node.id, node.expires_at
    FROM (SELECT * FROM unnest($1::uuid[]) AS given (id) ORDER BY id) AS given
    CROSS JOIN LATERAL (
        SELECT id, expires_at FROM tickwork_nodes WHERE id = given.id FOR NO KEY UPDATE
    ) AS node
),
ended AS (
    UPDATE tickwork_nodes AS node SET expires_at = 'epoch'
    FROM taken
    WHERE node.id = taken.id AND taken.expires_at <= $2 AND taken.expires_at > 'epoch'
)
SELECT id FROM taken WHERE expires_at > $2
