"""Types of messages as the database knows them: JSON Schemas, without the code that made them."""
