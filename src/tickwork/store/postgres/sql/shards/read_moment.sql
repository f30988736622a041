-- The database's time, its epoch (which counts how often it was replaced by a copy), and whether a node is alive.
SELECT moment.now,
    meta.epoch + ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::integer AS epoch,
    EXISTS (SELECT FROM tickwork_nodes WHERE id = $2 AND expires_at > moment.now) AS is_alive
FROM (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now) AS moment
CROSS JOIN tickwork_meta AS meta
