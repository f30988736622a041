-- Whether a node's lease still runs.
SELECT EXISTS (
    SELECT FROM tickwork_nodes WHERE id = $2 AND expires_at > coalesce($1::timestamptz, clock_timestamp())
)
