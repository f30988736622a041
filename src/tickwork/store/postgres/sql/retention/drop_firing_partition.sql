-- Takes away a day of firings as a whole.
DROP TABLE tickwork_firings_/*day*/
