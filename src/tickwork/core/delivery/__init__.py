"""Deliveries, decided: signatures, headers, templates, and what an answer means."""
