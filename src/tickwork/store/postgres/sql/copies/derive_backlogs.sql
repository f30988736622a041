-- Counts the backlog of queues that limit it.
INSERT INTO tickwork_backlogs (queue_id, stripe, bytes)
SELECT q.id, stripe, CASE stripe WHEN 0 THEN (
    SELECT coalesce(sum(octet_length(m.body)), 0) FROM tickwork_messages AS m WHERE m.queue_id = q.id
) ELSE 0 END
FROM tickwork_queues AS q, generate_series(0, /*stripes*/ - 1) AS stripe
WHERE q.is_capped
