-- The next rows of a table, each after its position.
SELECT /*position*/, /*fields*/ FROM /*table*/ WHERE /*condition*/
ORDER BY /*position*/
LIMIT ?
