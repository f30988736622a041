-- What an empty answer may mean: the node's lease ran out, or the queue has changed.
SELECT
    $2::uuid IS NULL OR EXISTS (
        SELECT FROM tickwork_nodes
        WHERE id = $2 AND expires_at > coalesce($1::timestamptz, clock_timestamp())
    ) AS is_alive,
    (SELECT is_governed FROM tickwork_queues WHERE id = $3) AS has_claim_limits
