"""One owner of the tenant: `app.owner("ann")`, whose verbs reach only what is hers."""

from __future__ import annotations

from tickwork.core.fields import NAME_LENGTH_MAX, shown, text_faults
from tickwork.engine.app_engine import AppEngine
from tickwork.errors import FieldError, InvalidInput
from tickwork.facade.endpoints import Endpoints, Events
from tickwork.facade.schedules import Schedules


class Owner:
    """The schedules, endpoints and events of one user of the tenant.

    What it creates belongs to the owner. What belongs to others, or to nobody, is `NotFound`. The
    code of the app chooses the targets of schedules: `owner_targets` do not limit it.
    """

    def __init__(self, engine: AppEngine, name: str) -> None:
        check_owner_name(name)
        self.name = name
        self.schedules = Schedules(engine, name)
        self.endpoints = Endpoints(engine, name)
        self.events = Events(engine, name)


def check_owner_name(name: object) -> None:
    """Raises `InvalidInput` for what cannot be an owner: without one, all would be reached."""
    if not isinstance(name, str):
        fault = f"must be the name of an owner, not {shown(name)}"
        raise InvalidInput([FieldError("owner", fault)])
    if faults := text_faults("owner", name, NAME_LENGTH_MAX):
        raise InvalidInput(faults)
