-- How many rows of a table are copied.
SELECT count(*) FROM /*table*/ WHERE /*condition*/
