-- Returns what parents read of runs with these uids.
SELECT r.uid, r.id, r.status, r.parent_step, r.error, r.result FROM tickwork_runs AS r
WHERE r.uid = ANY ($2::uuid[]) AND r.tenant = $1
