-- Creates the function that refuses changes by all but the copy.
CREATE FUNCTION tickwork_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('tickwork.is_copy', true) IS DISTINCT FROM 'yes' THEN
        RAISE EXCEPTION 'frozen: a copy into this database is not complete; start tickwork copy again'
            USING ERRCODE = '55000';
    END IF;
    RETURN NULL;
END $$
