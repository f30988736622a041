-- Some of the schedules that wait for the end of a run, in turn, with whether there is a run.
SELECT place, terms, EXISTS (
    SELECT 1 FROM tickwork_messages
    WHERE tenant = s.tenant AND schedule_id = s.id AND schedule_id IS NOT NULL AND run = 0
)
FROM tickwork_schedules AS s
WHERE place > ?1 AND status = 'active' AND next_slot IS NULL
ORDER BY place
LIMIT ?2
