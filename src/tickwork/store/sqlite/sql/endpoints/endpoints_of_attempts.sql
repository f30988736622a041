-- An endpoint whose health an attempt may change: it failed (`?2`), or the endpoint is not healthy.
SELECT /*endpoint*/ FROM tickwork_endpoints AS e WHERE e.id = ?1 AND (?2 OR e.failures_in_row > 0)
