-- What changes under a leader: the zone data, and the clock.

-- The oldest version of the zone data that a shard's stored times may be from; NULL: nobody said.
ALTER TABLE tickwork_shards ADD COLUMN tzdata TEXT;

-- The sum of the jumps of the clock, in microseconds: as they are known, and as far as the intervals of a shard
-- follow them. Of the last one: the time before it, and the first one after it.
ALTER TABLE tickwork_meta ADD COLUMN clock INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tickwork_meta ADD COLUMN clock_set_from INTEGER;
ALTER TABLE tickwork_meta ADD COLUMN clock_set_to INTEGER;
ALTER TABLE tickwork_shards ADD COLUMN clock INTEGER NOT NULL DEFAULT 0;

-- By so much an interval counts from another instant than its rule says, in microseconds.
ALTER TABLE tickwork_schedules ADD COLUMN shift INTEGER NOT NULL DEFAULT 0;
