-- Dead letters by rowid, oldest first.
SELECT place, /*dead_letter*/
FROM tickwork_dead_letters AS l WHERE place IN (SELECT value FROM json_each(?1))
ORDER BY failed_at, id
