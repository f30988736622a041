-- Ends a run, or gives it new params.
UPDATE tickwork_runs SET
    status = ?2, result = ?3, error = ?4, failed_step = ?5, params = coalesce(?6, params),
    generation = generation + (?6 IS NOT NULL), accepted = CASE WHEN ?6 IS NULL THEN accepted ELSE 0 END, finished_at = ?7
WHERE uid = ?1
