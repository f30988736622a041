-- Counts new runs of schedules that are not deleted, and returns how many each has then.
WITH given AS MATERIALIZED (
    -- In a fixed order, so that concurrent transactions do not deadlock.
    SELECT s.ctid AS at, given.runs
    FROM unnest($1::text[], $2::uuid[], $3::integer[]) AS given (tenant, id, runs)
    CROSS JOIN LATERAL (
        SELECT ctid FROM tickwork_schedules
        WHERE tenant = given.tenant AND id = given.id AND status <> 'deleted' LIMIT 1 FOR UPDATE
    ) AS s
    ORDER BY given.tenant, given.id
)
UPDATE tickwork_schedules AS s SET runs = s.runs + given.runs
FROM given WHERE s.ctid = given.at
RETURNING s.tenant, s.id, s.runs
