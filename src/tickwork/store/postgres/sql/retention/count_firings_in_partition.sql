-- How many firings were recorded on a day.
SELECT count(*) FROM tickwork_firings_/*day*/
