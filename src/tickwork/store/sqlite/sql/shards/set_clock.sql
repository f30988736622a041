-- Adds a jump of the clock to those that are known, unless another one came first, or a lease that began
-- before it lives: had time passed over that, it would have run out.
UPDATE tickwork_meta SET clock = clock + ?2, clock_set_from = ?4, clock_set_to = ?5
WHERE clock = ?3
    AND NOT (?2 > 0 AND EXISTS (
        SELECT 1 FROM tickwork_nodes WHERE started_at <= ?4 AND expires_at > ?1
    ))
