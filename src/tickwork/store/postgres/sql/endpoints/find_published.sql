-- A published event.
SELECT /*published*/ FROM tickwork_published WHERE tenant = $1 AND id = $2
