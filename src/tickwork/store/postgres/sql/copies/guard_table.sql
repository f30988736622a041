-- Lets a table refuse changes by all but the copy.
CREATE TRIGGER tickwork_copy_guard BEFORE INSERT OR UPDATE OR DELETE ON /*table*/
FOR EACH STATEMENT EXECUTE FUNCTION tickwork_refuse_change()
