-- What the worker of a node may run at a time, as JSON: lists of a queue, its permits, whether they
-- scale by themselves, and whether each handles a batch.
ALTER TABLE tickwork_nodes ADD COLUMN permits text NOT NULL DEFAULT '[]';
