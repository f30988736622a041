-- Lets a table accept changes again.
DROP TRIGGER /*trigger*/
