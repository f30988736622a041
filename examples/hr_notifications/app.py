"""The app with both shapes and its consumers: `tickwork run examples.hr_notifications.app:app`."""

from examples.hr_notifications import consumers, entities, rows
from examples.hr_notifications.jobs import app

__all__ = ["app", "consumers", "entities", "rows"]
