-- Why a claim returned nothing: whether the node's lease expired or the queue changed.
SELECT
    $2::uuid IS NULL OR EXISTS (
        SELECT FROM tickwork_nodes
        WHERE id = $2 AND expires_at > coalesce($1::timestamptz, clock_timestamp())
    ) AS is_alive,
    (SELECT is_governed FROM tickwork_queues WHERE id = $3) AS has_claim_limits
