-- Whether the body may leave the step out: it followed the failure of a step that is tried again.
ALTER TABLE tickwork_run_steps ADD COLUMN optional boolean NOT NULL DEFAULT false;
