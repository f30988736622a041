-- PostgreSQL has a function for sends in SQL from here on. SQLite has no functions to store.
SELECT 1;
