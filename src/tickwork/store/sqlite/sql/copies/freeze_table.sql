-- Lets a table refuse changes, with a note for those who try.
CREATE TRIGGER /*trigger*/ BEFORE /*act*/ ON /*table*/ BEGIN SELECT RAISE(ABORT, /*note*/); END
