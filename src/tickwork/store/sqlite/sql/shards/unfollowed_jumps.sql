-- The jumps of the clock that a shard led under this token has not followed, and the details of the last one.
SELECT meta.clock, meta.clock - led.clock, meta.clock_set_from, meta.clock_set_to
FROM tickwork_meta AS meta, tickwork_shards AS led
WHERE led.shard = ?1 AND led.token = ?2 AND led.node IS NOT NULL
