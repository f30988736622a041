-- The groups of dead letters are counted from an index, without their bodies.
CREATE INDEX tickwork_dead_letters_group
    ON tickwork_dead_letters (queue_id, tenant, reason, fingerprint, type, failed_at, resolution)
    WHERE resolution IS NULL;
