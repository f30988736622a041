-- Where a letter stands among the others.
SELECT failed_at FROM tickwork_dead_letters
WHERE id = $2 AND ($1::text IS NULL OR tenant = $1)
