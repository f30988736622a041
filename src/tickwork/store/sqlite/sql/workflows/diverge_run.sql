-- Notes how a run diverges from its record (?2), or with NULL that it does not.
UPDATE tickwork_runs SET
    divergence = ?2, diverged_at = CASE WHEN ?2 IS NOT NULL THEN coalesce(diverged_at, ?3) END
WHERE uid = ?1
