-- Creates the partition of a day.
CREATE TABLE IF NOT EXISTS tickwork_firings_/*day*/ PARTITION OF tickwork_firings
FOR VALUES FROM ('/*start*/') TO ('/*end*/')
