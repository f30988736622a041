-- The items of a map are children of its run, and a batch counts them: the run waits for the completion event.
ALTER TABLE tickwork_runs ADD COLUMN parent_id text COLLATE "C";
ALTER TABLE tickwork_runs ADD COLUMN parent_step text COLLATE "C";
ALTER TABLE tickwork_batches ADD COLUMN run_id text COLLATE "C";

-- Lists of runs have no children in them, and a map of many items makes them no slower.
DROP INDEX tickwork_runs_workflow;
DROP INDEX tickwork_runs_created;
CREATE INDEX tickwork_runs_workflow ON tickwork_runs (tenant, workflow, created_at, uid) WHERE parent_id IS NULL;
CREATE INDEX tickwork_runs_created ON tickwork_runs (tenant, created_at, uid) WHERE parent_id IS NULL;
CREATE INDEX tickwork_runs_parent ON tickwork_runs (tenant, parent_id, created_at, uid) WHERE parent_id IS NOT NULL;
