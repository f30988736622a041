-- Runs meet new code only where it agrees with their record. A step remembers what was called and in which order the
-- body got its result; a run, since when its code does not agree, and up to which step that was accepted.
ALTER TABLE tickwork_run_steps ADD COLUMN ended INTEGER;
ALTER TABLE tickwork_run_steps ADD COLUMN called TEXT;
ALTER TABLE tickwork_run_steps ADD COLUMN args BLOB;
ALTER TABLE tickwork_runs ADD COLUMN diverged_at INTEGER;
ALTER TABLE tickwork_runs ADD COLUMN accepted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tickwork_runs ADD COLUMN failed_step TEXT;
CREATE INDEX tickwork_runs_diverged ON tickwork_runs (tenant, created_at, uid)
    WHERE diverged_at IS NOT NULL AND status = 'running' AND parent_id IS NULL;

-- The versions of workflows that a node declares, as JSON: pairs of a workflow and a version.
ALTER TABLE tickwork_nodes ADD COLUMN workflows TEXT NOT NULL DEFAULT '[]';
