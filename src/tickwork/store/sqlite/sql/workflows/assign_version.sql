-- Sets the version of a run that has none.
UPDATE tickwork_runs SET version = coalesce(version, ?2) WHERE uid = ?1
