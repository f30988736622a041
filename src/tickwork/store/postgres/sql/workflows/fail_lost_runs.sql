-- Runs that lost too many workers ($2) fail at their next execution, after their compensations, instead of becoming
-- dead letters. One that loses its workers while it fails becomes a dead letter.
WITH lost AS MATERIALIZED (
    SELECT m.tenant, m.id, r.uid FROM tickwork_messages AS m
    CROSS JOIN LATERAL (
        SELECT uid FROM tickwork_runs
        WHERE message_id = m.id AND status = 'running' AND control IS DISTINCT FROM 'fail'
        LIMIT 1
    ) AS r
    WHERE m.holder = ANY ($1::uuid[]) AND m.state = 'claimed' AND m.caller IS NULL AND m.lost + 1 >= $2
),
failed AS (
    UPDATE tickwork_runs SET control = 'fail', paused = false, error = $3, signals = signals + 1
    WHERE uid = ANY (ARRAY (SELECT uid FROM lost))
)
-- Their claims are given back next, which counts one more.
UPDATE tickwork_messages AS m SET lost = -1 FROM lost WHERE m.tenant = lost.tenant AND m.id = lost.id
