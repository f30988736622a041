-- Records a request, unless one with its key is running or has an answer; one that was abandoned goes on.
INSERT INTO tickwork_requests AS r (tenant, key, fingerprint, seed, started_at)
VALUES (?2, ?3, ?4, ?5, ?1)
ON CONFLICT (tenant, key) DO UPDATE SET
    seed = CASE WHEN r.started_at <= ?1 - CAST(?6 * 1000000 AS INTEGER) THEN excluded.seed ELSE r.seed END,
    fingerprint = excluded.fingerprint,
    started_at = excluded.started_at,
    answer = NULL
WHERE r.started_at <= ?1 - CAST(?6 * 1000000 AS INTEGER)
    OR (
        r.answer IS NULL AND r.fingerprint = excluded.fingerprint
        AND r.started_at <= ?1 - CAST(?7 * 1000000 AS INTEGER)
    )
RETURNING seed
