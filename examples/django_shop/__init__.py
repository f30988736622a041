"""A shop with Django: an order of the ORM and its email commit together."""
