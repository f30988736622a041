-- Firings in some blocks of the partition of a day.
SELECT /*firing*/ FROM tickwork_firings_/*day*/ AS f
WHERE f.ctid >= $1::text::tid AND f.ctid < $2::text::tid
