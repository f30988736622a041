-- Lets a table accept changes again.
DROP TRIGGER tickwork_copy_guard ON /*table*/
