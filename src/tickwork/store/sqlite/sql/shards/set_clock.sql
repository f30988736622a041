-- Adds a jump of the clock to the known sum, unless another jump came first or a lease from before the jump
-- is alive: had that time really elapsed, the lease would have expired.
UPDATE tickwork_meta SET clock = clock + ?2, clock_set_from = ?4, clock_set_to = ?5
WHERE clock = ?3
    AND NOT (?2 > 0 AND EXISTS (
        SELECT 1 FROM tickwork_nodes WHERE started_at <= ?4 AND expires_at > ?1
    ))
