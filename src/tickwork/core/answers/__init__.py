"""What a user sees of each noun, declared once: `ops`, the app, the API and the client return the
same structs. Ids in them are `ids.Id`."""
