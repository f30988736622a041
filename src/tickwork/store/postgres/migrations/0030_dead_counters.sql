-- Messages that died in the last day are counted by type: few of the counters are of those.
CREATE INDEX tickwork_tallies_dead ON tickwork_tallies (queue_id, minute) WHERE passing = 'dead';
