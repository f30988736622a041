-- Gives up soon if a table is in use: others would wait behind this transaction.
SET LOCAL lock_timeout = '3s'
