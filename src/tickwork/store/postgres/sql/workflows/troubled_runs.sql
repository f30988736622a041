-- Runs of a tenant that diverged, or failed after a time: by workflow, up to a limit of each kind.
SELECT workflow, status, count(*) AS runs, min(coalesce(finished_at, created_at)) AS since
FROM (
    SELECT * FROM (
        SELECT workflow, status, finished_at, created_at FROM tickwork_runs
        WHERE tenant = $1 AND parent_id IS NULL AND error IS NOT NULL
            AND status = 'failed' AND finished_at > $2
        ORDER BY finished_at DESC
        LIMIT $3
    ) AS failed
    UNION ALL
    SELECT * FROM (
        SELECT workflow, 'diverged' AS status, diverged_at AS finished_at, created_at FROM tickwork_runs
        WHERE tenant = $1 AND parent_id IS NULL AND diverged_at IS NOT NULL AND status = 'running'
        LIMIT $3
    ) AS diverged
) AS found
GROUP BY workflow, status
ORDER BY workflow, status
