-- Runs that lost too many workers (?2) fail at their next execution, after their compensations, instead of becoming
-- dead letters. One that loses its workers while it fails becomes a dead letter.
UPDATE tickwork_runs SET control = 'fail', paused = 0, error = ?3, signals = signals + 1
WHERE status = 'running' AND control IS NOT 'fail' AND message_id IN (
    SELECT id FROM tickwork_messages WHERE holder = ?1 AND state = 'claimed' AND caller IS NULL AND lost + 1 >= ?2
)
RETURNING message_id
