-- Returns the steps of a run that are open at a time, as `RunStep.is_open` has it, in the order in which they started.
SELECT /*run_step*/ FROM tickwork_run_steps AS s
WHERE s.uid = $1 AND s.state NOT IN ('done', 'failed')
    AND (s.kind <> 'sleep' OR s.wake_at IS NULL OR s.wake_at > $2)
ORDER BY s.position, s.key
