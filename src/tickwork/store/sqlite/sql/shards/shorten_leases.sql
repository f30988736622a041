-- Shortens leases from before a jump back, also those of dead nodes: they would last longer. Other leases
-- last at most `?3` and expire soon enough.
UPDATE tickwork_nodes SET expires_at = expires_at + ?2 WHERE expires_at > ?1 + ?3
