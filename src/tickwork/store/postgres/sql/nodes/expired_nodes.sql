-- Locks nodes whose lease expired; skips those that another transaction is ending.
SELECT id FROM tickwork_nodes WHERE expires_at <= coalesce($1::timestamptz, clock_timestamp())
ORDER BY expires_at, id
LIMIT $2
FOR UPDATE SKIP LOCKED
