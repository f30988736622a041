-- Locks the backlog stripes of a queue, so that all earlier changes are committed.
SELECT stripe FROM tickwork_backlogs WHERE queue_id = $1 ORDER BY stripe FOR UPDATE
