-- Active schedules of a shard by planning time, after a given schedule, without their bodies.
SELECT tenant, id, name, next_slot, look_at, last_slot, updated_at, fired, rule FROM tickwork_schedules
WHERE bucket / /*buckets_per_shard*/ = ?1 AND look_at IS NOT NULL AND status = 'active' AND (look_at, id) > (?2, ?3)
    AND next_slot IS NOT NULL
ORDER BY look_at, id
LIMIT ?4
