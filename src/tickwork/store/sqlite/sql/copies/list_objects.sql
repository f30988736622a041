-- Tables or triggers by name.
SELECT name, sql FROM sqlite_master WHERE type = ?1 ORDER BY name
