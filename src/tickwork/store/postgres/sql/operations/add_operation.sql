-- Records an operation that begins.
INSERT INTO tickwork_operations (
    id, tenant, kind, selection, started_by, started_at, state, total, is_estimate, canary,
    canary_timeout_seconds, rate_per_second, done, failed, skipped, position, canaries, paced_until, due_at,
    version, reason, error, stopped_by, finished_at
) VALUES (
    $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23,
    $24
)
