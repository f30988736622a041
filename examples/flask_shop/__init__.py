"""A shop with Flask and SQLAlchemy, without `await`: an order and its email commit together."""
