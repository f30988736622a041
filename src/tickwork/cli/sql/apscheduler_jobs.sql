-- The jobs of APScheduler 3.
SELECT id, job_state FROM apscheduler_jobs ORDER BY id
