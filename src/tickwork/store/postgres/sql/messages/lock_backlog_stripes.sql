-- Takes the stripes of a queue: whoever changed one has committed then.
SELECT stripe FROM tickwork_backlogs WHERE queue_id = $1 ORDER BY stripe FOR UPDATE
