"""What an app declares: a class with async methods, some of them for reading or for HTTP."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, Unpack

from msgspec import Struct

from tickwork.core.entity.call import check_type_name
from tickwork.core.fields import shown
from tickwork.core.near_names import nearest
from tickwork.core.options import FunctionFields
from tickwork.core.when import Limits
from tickwork.errors import FieldError, InvalidInput, NotFound

if TYPE_CHECKING:
    from tickwork.entity.storage import Storage

Method = TypeVar("Method", bound=Callable[..., Any])

FITTING_MAX = 1_000
"""Maximum number of methods, each with a number of arguments, that a type remembers as fitting."""

READ, EXPOSED = "__tickwork_read__", "__tickwork_exposed__"


def read(method: Method) -> Method:
    """Declares that a method only reads: it runs at once, beside other calls, on the committed
    state."""
    setattr(method, READ, True)
    return method


def exposed(method: Method) -> Method:
    """Declares that a method may be called over HTTP."""
    setattr(method, EXPOSED, True)
    return method


class AlarmInfo(Struct, frozen=True):
    """What an alarm's handler gets: when it was set to fire, how late it is, and how many
    attempts failed before."""

    at: datetime
    late_seconds: float
    retries: int


class CallContext(Protocol):
    """What an entity may do during a call."""

    @property
    def tenant(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def now(self) -> datetime: ...
    @property
    def storage(self) -> Storage: ...
    def get_alarm(self) -> datetime | None: ...
    def set_alarm(self, at: datetime) -> None: ...
    def delete_alarm(self) -> None: ...
    def set_schedule(
        self, name: str, method: str, fields: Mapping[str, Any], **timing: Any
    ) -> None: ...
    def delete_schedule(self, name: str) -> bool: ...


class Entity:
    """The base class of entities. Every call gets a new instance: keep state in `self.storage`."""

    schema_version: ClassVar[int] = 1
    """Version of what the class stores. When it rises, `migrate` runs before the next call."""

    def __init__(self, call: CallContext) -> None:
        self._call = call

    @property
    def key(self) -> str:
        """The key of this entity."""
        return self._call.key

    @property
    def tenant(self) -> str:
        """The tenant that this entity belongs to."""
        return self._call.tenant

    @property
    def now(self) -> datetime:
        """The time at which the call started, by the database's clock."""
        return self._call.now

    @property
    def storage(self) -> Storage:
        """The storage of this entity. What a call writes commits when its method returns."""
        return self._call.storage

    async def set_alarm(self, at: datetime) -> None:
        """Runs `alarm` at a time, once. It replaces an alarm that is set; a time in the past is
        now."""
        self._call.set_alarm(at)

    async def get_alarm(self) -> datetime | None:
        """When the alarm is set to fire. None while its own handler runs, unless it is set
        again."""
        return self._call.get_alarm()

    async def delete_alarm(self) -> None:
        """Removes the alarm, if one is set."""
        self._call.delete_alarm()

    async def schedule(
        self,
        name: str,
        *,
        method: str,
        at: datetime | None = None,
        every: float | timedelta | None = None,
        cron: str | None = None,
        **fields: Unpack[FunctionFields],
    ) -> None:
        """Calls a method of this entity on a schedule, which replaces one of the same name.

        Args:
            name: A name of this entity's own, up to 60 characters.
            method: The method to call, with the payload if there is one.
            at: Once, at this time.
            every: Again and again, every so many seconds.
            cron: By a cron expression.
            fields: Everything else a schedule has: `payload` (the argument of the method, as JSON),
                `timezone`, other timings such as `daily_time`, `jitter_seconds`, `retry`, ….
        """
        self._call.set_schedule(name, method, fields, at=at, every=every, cron=cron)

    async def unschedule(self, name: str) -> bool:
        """Deletes a schedule of this entity; False if it has none of that name."""
        return self._call.delete_schedule(name)

    async def alarm(self, info: AlarmInfo) -> None:
        """Handles the alarm. Override it to use alarms: without it none can be set."""

    async def migrate(self, from_version: int) -> None:
        """Changes the storage of an older `schema_version` to the present one."""


_BASE = frozenset(dir(Entity))


class EntityType:
    """A registered class and its methods."""

    def __init__(
        self,
        cls: type[Entity],
        name: str | None = None,
        limits: Callable[[], Limits] = Limits,
    ) -> None:
        self.limits = limits
        self._signatures: dict[str, inspect.Signature] = {}
        self._fitting: set[tuple[str, int]] = set()
        given: object = cls
        if not (isinstance(given, type) and issubclass(given, Entity)):
            fault = f"must be a class derived from tickwork.Entity, not {shown(given)}"
            raise InvalidInput([FieldError("entity", fault)])
        self.cls, self.name = cls, cls.__name__ if name is None else name
        check_type_name(self.name)
        version: object = cls.schema_version
        if isinstance(version, bool) or not isinstance(version, int) or version < 1:
            fault = f"must be a whole number from 1 on, not {shown(version)}"
            raise InvalidInput([FieldError(f"{self.name}.schema_version", fault)])
        self._check_own(cls)
        self.methods = {
            method_name: getattr(cls, method_name)
            for method_name in dir(cls)
            if not method_name.startswith("_")
            and method_name not in _BASE
            and callable(getattr(cls, method_name))
        }
        for method_name, method in self.methods.items():
            if not inspect.iscoroutinefunction(method):
                fault = "must be `async def`; name a plain helper with a leading _"
                raise InvalidInput([FieldError(f"{self.name}.{method_name}", fault)])

    def _check_own(self, cls: type[Entity]) -> None:
        final = {name for name in _BASE if name[0] != "_"} - {"alarm", "migrate", "schema_version"}
        own = {name for base in cls.__mro__ if base not in (Entity, object) for name in vars(base)}
        for name in sorted(own & (final | {"__init__", "send"})):
            fault = "is a name of Entity itself; use another one"
            if name == "__init__":
                fault = "is called for every call; set nothing in memory, use self.storage"
            raise InvalidInput([FieldError(f"{self.name}.{name}", fault)])

    @property
    def has_alarm(self) -> bool:
        """Whether the class handles alarms."""
        return self.cls.alarm is not Entity.alarm

    def check_alarm(self) -> None:
        """Raises `InvalidInput` if the class does not handle alarms."""
        if not self.has_alarm:
            fault = f"cannot be set: {self.name} has no `async def alarm(self, info)`; write it"
            raise InvalidInput([FieldError("alarm", fault)])

    def method(self, name: str, *, only_exposed: bool = False) -> Callable[..., Any]:
        """A method by name; `NotFound` if there is none, or it is not exposed."""
        found = self.methods.get(name)
        if found is None or (only_exposed and not getattr(found, EXPOSED, False)):
            hint = self.near(name, only_exposed=only_exposed)
            raise NotFound(f"method of {self.name}", name, hint)
        method: Callable[..., Any] = found
        return method

    def near(self, name: str, *, only_exposed: bool = False) -> str | None:
        """Which method may be meant by a name that no method has, as a question."""
        known = [known for known in self.methods if not only_exposed or self.is_exposed(known)]
        near = nearest(name, known)
        return f"do you mean {near}?" if near else None

    def check_arguments(self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Raises `TypeError` for arguments that do not fit a method. Which numbers of positional
        arguments fit is remembered: binding takes longer than most other parts of a call."""
        counted = (name, len(args))
        if kwargs or counted not in self._fitting:
            if name not in self._signatures:
                self._signatures[name] = inspect.signature(self.method(name))
            self._signatures[name].bind(None, *args, **kwargs)
            if not kwargs and len(self._fitting) < FITTING_MAX:
                self._fitting.add(counted)

    def is_read(self, name: str) -> bool:
        """Whether a method only reads."""
        return bool(getattr(self.methods.get(name), READ, False))

    def is_exposed(self, name: str) -> bool:
        """Whether a method may be called over HTTP."""
        return bool(getattr(self.methods.get(name), EXPOSED, False))
