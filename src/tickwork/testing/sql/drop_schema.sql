-- Takes away everything of one test.
DROP SCHEMA /*name*/ CASCADE
