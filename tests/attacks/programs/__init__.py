"""Programs that tests of attacks start."""
