-- Deletes runs that ended before a time, and returns them. A child is kept while its parent runs.
DELETE FROM tickwork_runs WHERE place IN (
    SELECT r.place FROM tickwork_runs AS r
    WHERE r.finished_at IS NOT NULL AND r.finished_at <= ?1
        AND (
            r.parent_id IS NULL
            OR NOT EXISTS (
                SELECT 1 FROM tickwork_runs AS p
                WHERE p.tenant = r.tenant AND p.id = r.parent_id AND p.finished_at IS NULL
            )
        )
    ORDER BY r.finished_at
    LIMIT ?2
)
RETURNING uid
