-- Drops the partition of a day.
DROP TABLE tickwork_firings_/*day*/
