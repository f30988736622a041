-- What a running run (r) whose message (m) no worker has now waits for: that its sleeps are over, or also
-- for something else. NULL if a worker has it, or could take it. The placeholder is the time.
CASE
    WHEN r.status <> 'running' OR m.state = 'claimed' THEN NULL
    WHEN m.state = 'ready' AND m.visible_at <= coalesce(/*start*/::timestamptz, clock_timestamp()) THEN NULL
    WHEN EXISTS (
        SELECT 1 FROM tickwork_run_steps AS s
        WHERE s.uid = r.uid AND s.state NOT IN ('done', 'failed') AND s.kind <> 'sleep'
    ) THEN 'waiting'
    WHEN EXISTS (
        SELECT 1 FROM tickwork_run_steps AS s
        WHERE s.uid = r.uid AND s.kind = 'sleep' AND s.wake_at > coalesce(/*start*/::timestamptz, clock_timestamp())
    ) THEN 'sleeping'
    ELSE 'waiting'
END
