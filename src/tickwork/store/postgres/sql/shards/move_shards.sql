-- Gives shards to a node (`$2`), under tokens higher than all before, or to none, since `freed_at`: those that have not
-- changed since they were read, if that node is alive and a scheduler and their leaders are not alive. Ends the leases
-- of those leaders for good: a concurrent heartbeat either came first or finds its lease ended.
-- One statement: a node with a slow connection locks nothing while it waits for answers.
WITH moment AS MATERIALIZED (SELECT coalesce($1::timestamptz, clock_timestamp()) AS now),
seen AS MATERIALIZED (
    SELECT * FROM unnest(
        $3::smallint[], $4::bigint[], $5::uuid[], $6::boolean[], $7::timestamptz[], $8::timestamptz[]
    ) AS seen (shard, token, node, is_taken, freed_at, kept_until)
),
own AS MATERIALIZED (
    SELECT id FROM tickwork_nodes
    WHERE id = $2 AND expires_at > (SELECT now FROM moment) AND 'scheduler' = ANY (roles) FOR KEY SHARE
),
leader AS MATERIALIZED (
    SELECT node.id, node.expires_at
    FROM (SELECT DISTINCT node AS id FROM seen WHERE node <> $2 ORDER BY id) AS given
    CROSS JOIN LATERAL (
        SELECT id, expires_at FROM tickwork_nodes WHERE id = given.id FOR NO KEY UPDATE
    ) AS node
),
ended AS (
    UPDATE tickwork_nodes AS node SET expires_at = 'epoch'
    FROM leader
    WHERE node.id = leader.id AND leader.expires_at > 'epoch' AND leader.expires_at <= (SELECT now FROM moment)
),
-- Nodes are locked before shards, and shards in a fixed order.
locked AS MATERIALIZED (
    SELECT s.shard, s.token, s.node
    FROM (
        SELECT shard FROM seen
        WHERE (SELECT count(*) FROM own) > 0 AND (SELECT count(*) FROM leader) >= 0
        ORDER BY shard
    ) AS given
    CROSS JOIN LATERAL (
        SELECT shard, token, node FROM tickwork_shards WHERE shard = given.shard FOR UPDATE
    ) AS s
),
moving AS MATERIALIZED (
    SELECT seen.*
    FROM seen JOIN locked ON locked.shard = seen.shard
    WHERE locked.token = seen.token AND locked.node IS NOT DISTINCT FROM seen.node
        AND NOT EXISTS (
            SELECT FROM leader WHERE leader.id = seen.node AND leader.expires_at > (SELECT now FROM moment)
        )
)
UPDATE tickwork_shards AS s
SET node = CASE WHEN moving.is_taken THEN $2::uuid END,
    taken_at = CASE
        WHEN moving.is_taken AND s.node = $2::uuid THEN s.taken_at
        WHEN moving.is_taken THEN (SELECT now FROM moment)
    END,
    token = CASE WHEN moving.is_taken THEN greatest(s.token + 1, $9::bigint) ELSE s.token END,
    freed_at = CASE WHEN NOT moving.is_taken THEN moving.freed_at END,
    kept_until = CASE WHEN moving.is_taken THEN moving.kept_until END
FROM moving
WHERE s.shard = moving.shard
RETURNING s.shard, s.token, s.node, s.tzdata, s.clock
