-- Leases from before a jump back would last longer by it, those of the dead, too: they follow it. No
-- other lasts for longer than `?3`, and one that does not is over soon enough.
UPDATE tickwork_nodes SET expires_at = expires_at + ?2 WHERE expires_at > ?1 + ?3
