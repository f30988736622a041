"""A shop with FastAPI and SQLAlchemy: an order and its email commit together."""
