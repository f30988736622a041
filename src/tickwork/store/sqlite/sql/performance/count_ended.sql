-- Notes how ended messages of a queue and type fared.
INSERT INTO tickwork_ended_counts (ended_at, tenant, queue, type, done, failed, discarded, waits, runs)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)
