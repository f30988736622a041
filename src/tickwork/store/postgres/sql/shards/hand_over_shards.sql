-- Gives shards to a node (`$4`), under a token higher than all before, or to none: those that have not
-- changed since they were read. A node that leads a shard already keeps its `taken_at`.
UPDATE tickwork_shards AS s
SET node = $4,
    taken_at = CASE
        WHEN s.node = $4::uuid THEN s.taken_at WHEN $4::uuid IS NOT NULL THEN $5::timestamptz
    END,
    token = CASE WHEN $4::uuid IS NOT NULL THEN greatest(s.token + 1, $6::bigint) ELSE s.token END
FROM unnest($1::smallint[], $2::bigint[], $3::uuid[]) AS seen (shard, token, node)
WHERE s.shard = seen.shard AND s.token = seen.token AND s.node IS NOT DISTINCT FROM seen.node
RETURNING s.shard, s.token
