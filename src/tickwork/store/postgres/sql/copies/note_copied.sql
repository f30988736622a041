-- Records how far a table is copied.
INSERT INTO tickwork_copy AS known (name, position, copied, is_done) VALUES ($1, $2, $3, $4)
ON CONFLICT (name) DO UPDATE SET
    position = coalesce(excluded.position, known.position), copied = known.copied + excluded.copied,
    is_done = excluded.is_done
