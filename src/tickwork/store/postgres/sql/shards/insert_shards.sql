-- Creates shards without leaders. Their tokens are higher than all before.
INSERT INTO tickwork_shards (shard, token, tzdata, clock)
SELECT shard, $2, $3, $4 FROM generate_series(0, $1::integer - 1) AS new (shard)
