-- Locks a node whose lease has not expired, so that it is not declared dead. Returns the database's time, its
-- epoch, and how often it was replaced by a copy.
SELECT moment.now, node.id,
    meta.epoch + ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer AS epoch
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
CROSS JOIN tickwork_meta AS meta
CROSS JOIN LATERAL (
    SELECT id FROM tickwork_nodes WHERE id = $2 AND expires_at > moment.now FOR KEY SHARE
) AS node
