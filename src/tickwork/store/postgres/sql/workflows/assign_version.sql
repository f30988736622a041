-- Sets the version of a run that has none, if its message is still claimed by exactly this claim.
WITH held AS MATERIALIZED (
    SELECT 1 FROM tickwork_messages
    WHERE tenant = $1 AND id = $2 AND (claim, holder) IS NOT DISTINCT FROM ($3, $4::uuid)
    FOR SHARE
)
UPDATE tickwork_runs SET version = coalesce(version, $6)
FROM held
WHERE uid = $5 AND message_id = $2
RETURNING uid
