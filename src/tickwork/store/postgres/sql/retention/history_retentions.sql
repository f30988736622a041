-- For how many seconds queues keep their history.
SELECT history_seconds AS seconds FROM tickwork_meta
UNION
SELECT (settings ->> 'history_seconds')::integer FROM tickwork_queues WHERE settings ->> 'history_seconds' IS NOT NULL
