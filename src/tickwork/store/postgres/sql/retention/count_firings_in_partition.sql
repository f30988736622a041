-- The number of firings in the partition of a day.
SELECT count(*) FROM tickwork_firings_/*day*/
