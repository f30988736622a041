-- Takes nodes whose lease ran out for their end; leaves those somebody else is ending.
SELECT id FROM tickwork_nodes WHERE expires_at <= coalesce($1::timestamptz, clock_timestamp())
ORDER BY expires_at, id
LIMIT $2
FOR UPDATE SKIP LOCKED
