-- What changes under a leader: the zone data, and the clock.

-- The oldest version of the zone data that a shard's stored times may be from; NULL: nobody said.
ALTER TABLE tickwork_shards ADD COLUMN tzdata text COLLATE "C";

-- The sum of the jumps of the clock, in microseconds: as they are known, and as far as the intervals of a shard
-- follow them. Of the last one: the time before it, and the first one after it.
ALTER TABLE tickwork_meta
    ADD COLUMN clock bigint NOT NULL DEFAULT 0,
    ADD COLUMN clock_set_from timestamptz,
    ADD COLUMN clock_set_to timestamptz;
ALTER TABLE tickwork_shards ADD COLUMN clock bigint NOT NULL DEFAULT 0;

-- By so much an interval counts from another instant than its rule says, in microseconds.
ALTER TABLE tickwork_schedules ADD COLUMN shift bigint NOT NULL DEFAULT 0;
