-- A dead letter by tenant and id.
SELECT /*dead_letter*/ FROM tickwork_dead_letters AS l WHERE tenant = ?1 AND id = ?2
