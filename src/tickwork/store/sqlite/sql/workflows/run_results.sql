-- Returns what a parent reads of the run with this uid.
SELECT r.uid, r.id, r.status, r.parent_step, r.error, r.result FROM tickwork_runs AS r
WHERE r.uid = ?2 AND r.tenant = ?1
