-- Whether a table has rows of a kind.
SELECT EXISTS (SELECT 1 FROM /*table*/ WHERE /*condition*/)
