-- Deletes runs that ended before a time, with their steps and events. A child is kept while its parent runs.
WITH old AS MATERIALIZED (
    SELECT r.ctid AS at FROM tickwork_runs AS r
    WHERE r.finished_at IS NOT NULL AND r.finished_at <= $1
        AND (
            r.parent_id IS NULL
            OR NOT EXISTS (
                SELECT 1 FROM tickwork_runs AS p
                WHERE p.tenant = r.tenant AND p.id = r.parent_id AND p.finished_at IS NULL
            )
        )
    ORDER BY r.finished_at
    LIMIT $2
),
gone AS (
    DELETE FROM tickwork_runs WHERE ctid = ANY (ARRAY (SELECT at FROM old)) AND finished_at <= $1
    RETURNING uid
),
without_steps AS (
    DELETE FROM tickwork_run_steps AS s USING gone WHERE s.uid = gone.uid
),
without_events AS (
    DELETE FROM tickwork_run_events AS e USING gone WHERE e.uid = gone.uid
)
SELECT 1 FROM gone
