"""`Step`: what the body of a workflow is given to call its steps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import UTC, datetime
from math import isnan
from typing import Any, NoReturn, Protocol, TypeVar, TypeVarTuple, overload

from tickwork.app.invocation import Rows
from tickwork.app.workflows import item_payload
from tickwork.core.fields import TEXT_LENGTH_MAX, shown, text_faults
from tickwork.core.limits import DELAY_SECONDS_MAX
from tickwork.core.workflow.children import MapItem
from tickwork.core.workflow.model import ITEM_BYTES_MAX, MAP_ITEMS_MAX
from tickwork.core.workflow.retries import Retries, check_retries
from tickwork.core.workflow.step_key import check_step_text
from tickwork.errors import FieldError, InvalidInput
from tickwork.workflow.call import StepCall
from tickwork.workflow.work import STEP_TIMEOUT_SECONDS, Work, encode_value

T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")
T6 = TypeVar("T6")
Ts = TypeVarTuple("Ts")
Item = TypeVar("Item")

DEFAULT_RETRIES = Retries()


class ContinueAs(BaseException):
    """Ends the body; the run goes on from its start with these params. No `except Exception`
    catches it."""

    def __init__(self, params: object) -> None:
        self.params = params
        super().__init__("the run continues with new params")


class Caller(Protocol):
    """Runs and records the steps of one execution of a body."""

    @property
    def run_id(self) -> str: ...
    @property
    def tenant(self) -> str: ...
    def do(self, name: object, key: object, work: Work) -> StepCall[Any]: ...
    def sleep(
        self, name: object, seconds: float | None, until: datetime | None
    ) -> StepCall[None]: ...
    def wait_for_event(
        self, name: object, type_: str, timeout_seconds: float | None
    ) -> StepCall[Any]: ...
    def patched(self, name: object) -> StepCall[bool]: ...
    def map(
        self, name: object, work: Work, items: Sequence[MapItem], concurrency: int
    ) -> StepCall[list[Any]]: ...
    def note_failed_together(self, errors: Sequence[BaseException]) -> None: ...


class Step:
    """Calls the steps of a run. A step that is recorded returns its result at once.

    A step starts when it is called. Await it, or several with `gather` or a `TaskGroup`.
    """

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @property
    def run_id(self) -> str:
        """The id of the run."""
        return self._caller.run_id

    @property
    def tenant(self) -> str:
        """The tenant of the run."""
        return self._caller.tenant

    @overload
    def do(
        self,
        name: str,
        function: Callable[[*Ts], Awaitable[T]],
        /,
        *args: *Ts,
        retries: Retries = DEFAULT_RETRIES,
        timeout_seconds: float = STEP_TIMEOUT_SECONDS,
        compensate: Callable[[T | None, *Ts], object] | None = None,
        key: str | None = None,
    ) -> StepCall[T]: ...

    @overload
    def do(
        self,
        name: str,
        function: Callable[[*Ts], T],
        /,
        *args: *Ts,
        retries: Retries = DEFAULT_RETRIES,
        timeout_seconds: float = STEP_TIMEOUT_SECONDS,
        compensate: Callable[[T | None, *Ts], object] | None = None,
        key: str | None = None,
    ) -> StepCall[T]: ...

    def do(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: object,
        retries: Retries = DEFAULT_RETRIES,
        timeout_seconds: float = STEP_TIMEOUT_SECONDS,
        compensate: Callable[..., object] | None = None,
        key: str | None = None,
    ) -> StepCall[Any]:
        """Calls `function(*args)` once and records its result, which must be JSON.

        Arguments go by position; those with a default may be left out. What the function sends
        commits with the record. An error is retried; `Permanent` is not. After the last attempt
        `StepFailed` is raised here. If the run fails later, or is cancelled,
        `compensate(output, *args)` undoes the step. `key` distinguishes steps of one name. A
        plain function runs in a thread.
        """
        work = _work(name, function, args, retries, timeout_seconds, compensate)
        return self._caller.do(name, key, work)

    @overload
    def transaction(
        self,
        name: str,
        function: Callable[[Rows, *Ts], Awaitable[T]],
        /,
        *args: *Ts,
        retries: Retries = DEFAULT_RETRIES,
        timeout_seconds: float = STEP_TIMEOUT_SECONDS,
        key: str | None = None,
    ) -> StepCall[T]: ...

    @overload
    def transaction(
        self,
        name: str,
        function: Callable[[Rows, *Ts], T],
        /,
        *args: *Ts,
        retries: Retries = DEFAULT_RETRIES,
        timeout_seconds: float = STEP_TIMEOUT_SECONDS,
        key: str | None = None,
    ) -> StepCall[T]: ...

    def transaction(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: object,
        retries: Retries = DEFAULT_RETRIES,
        timeout_seconds: float = STEP_TIMEOUT_SECONDS,
        key: str | None = None,
    ) -> StepCall[Any]:
        """Calls `function(rows, *args)`, which notes its own rows with `rows.execute(…)`. They
        commit together with the record of the step."""
        work = _work(name, function, args, retries, timeout_seconds, None, has_rows=True)
        return self._caller.do(name, key, work)

    @overload
    async def gather(self, step1: Awaitable[T1], step2: Awaitable[T2], /) -> tuple[T1, T2]: ...

    @overload
    async def gather(
        self, step1: Awaitable[T1], step2: Awaitable[T2], step3: Awaitable[T3], /
    ) -> tuple[T1, T2, T3]: ...

    @overload
    async def gather(
        self,
        step1: Awaitable[T1],
        step2: Awaitable[T2],
        step3: Awaitable[T3],
        step4: Awaitable[T4],
        /,
    ) -> tuple[T1, T2, T3, T4]: ...

    @overload
    async def gather(
        self,
        step1: Awaitable[T1],
        step2: Awaitable[T2],
        step3: Awaitable[T3],
        step4: Awaitable[T4],
        step5: Awaitable[T5],
        /,
    ) -> tuple[T1, T2, T3, T4, T5]: ...

    @overload
    async def gather(
        self,
        step1: Awaitable[T1],
        step2: Awaitable[T2],
        step3: Awaitable[T3],
        step4: Awaitable[T4],
        step5: Awaitable[T5],
        step6: Awaitable[T6],
        /,
    ) -> tuple[T1, T2, T3, T4, T5, T6]: ...

    @overload
    async def gather(self, *steps: Awaitable[T]) -> list[T]: ...

    async def gather(self, *steps: Awaitable[Any]) -> Any:
        """Awaits several steps and returns a list of their results in order. If one fails, the
        others finish before its error is raised.

        For two to six steps type checkers see a tuple, as with `asyncio.gather`.
        """
        results = await asyncio.gather(*steps, return_exceptions=True)
        errors = [result for result in results if isinstance(result, BaseException)]
        if errors:
            self._caller.note_failed_together(errors)
            raise errors[0]
        return results

    @overload
    def map(
        self,
        name: str,
        function: Callable[[Item], Awaitable[T]],
        items: Iterable[Item],
        /,
        *,
        key: Callable[[Item], str] | None = None,
        concurrency: int = 50,
        retries: Retries = DEFAULT_RETRIES,
        timeout_seconds: float = STEP_TIMEOUT_SECONDS,
    ) -> StepCall[list[T]]: ...

    @overload
    def map(
        self,
        name: str,
        function: Callable[[Item], T],
        items: Iterable[Item],
        /,
        *,
        key: Callable[[Item], str] | None = None,
        concurrency: int = 50,
        retries: Retries = DEFAULT_RETRIES,
        timeout_seconds: float = STEP_TIMEOUT_SECONDS,
    ) -> StepCall[list[T]]: ...

    def map(
        self,
        name: str,
        function: Callable[..., Any],
        items: Iterable[Any],
        /,
        *,
        key: Callable[[Any], str] | None = None,
        concurrency: int = 50,
        retries: Retries = DEFAULT_RETRIES,
        timeout_seconds: float = STEP_TIMEOUT_SECONDS,
    ) -> StepCall[list[Any]]:
        """Calls a function for each item, at most `concurrency` at a time, and returns the results
        in order. `key` names an item; by default its index does.

        Each item is a run of its own, on any node, and gets its item as JSON. If one fails, the
        others finish before `StepFailed` is raised here.
        """
        given: object = concurrency
        if isinstance(given, bool) or not isinstance(given, int) or not given >= 1:
            fault = f"must be a whole number, 1 or more, not {shown(given)}"
            raise InvalidInput([FieldError("concurrency", fault)])
        work = _work(name, function, (), retries, timeout_seconds, None)
        return self._caller.map(name, work, _map_items(name, function, items, key), concurrency)

    def sleep(self, name: str, seconds: float) -> StepCall[None]:
        """Waits. The time at which it ends is recorded, and holds over crashes and pauses. A
        negative number ends at once."""
        if not _is_number(seconds) or isnan(seconds):
            fault = f"must be a number of seconds, not {shown(seconds)}"
            raise InvalidInput([FieldError(f"step {name!r}", fault)])
        if seconds > 100 * DELAY_SECONDS_MAX:
            fault = f"must sleep at most {100 * DELAY_SECONDS_MAX} seconds"
            raise InvalidInput([FieldError(f"step {name!r}", fault)])
        return self._caller.sleep(name, max(float(seconds), 0.0), None)

    def sleep_until(self, name: str, when: datetime) -> StepCall[None]:
        """Waits until a time with a zone. A time in the past returns at once."""
        given: object = when
        if not isinstance(given, datetime) or given.tzinfo is None:
            fault = f"must be a datetime with a time zone, not {shown(when)}"
            raise InvalidInput([FieldError(f"step {name!r}", fault)])
        return self._caller.sleep(name, None, when.astimezone(UTC))

    def wait_for_event(
        self,
        name: str,
        *,
        type: str,  # noqa: A002  the common word for it
        timeout_seconds: float | None = None,
    ) -> StepCall[Any]:
        """Waits for an event of a type and returns its data. Events come in order, each once; one
        that was sent before is taken. Raises `EventTimedOut` after `timeout_seconds`."""
        faults = text_faults("type", type, TEXT_LENGTH_MAX)
        if timeout_seconds is not None and not 0 <= timeout_seconds <= 100 * DELAY_SECONDS_MAX:
            faults.append(FieldError("timeout_seconds", f"cannot be {shown(timeout_seconds)}"))
        if faults:
            raise InvalidInput(faults)
        return self._caller.wait_for_event(name, type, timeout_seconds)

    def patched(self, name: str) -> StepCall[bool]:
        """Whether a run takes the new way of a change: `if await step.patched("new-flow"):`. A run
        that had recorded steps beyond this point when it got here keeps to the old way."""
        return self._caller.patched(name)

    def continue_as(self, params: object) -> NoReturn:
        """Ends the body. The run starts again with new params and an empty record; events that wait
        are kept. For runs without an end."""
        raise ContinueAs(params)


def _map_items(
    name: str,
    function: Callable[..., Any],
    items: Iterable[Any],
    key: Callable[[Any], str] | None,
) -> list[MapItem]:
    """The items of a map as they are stored. Raises `InvalidInput`."""
    payload = item_payload(function)
    made = list[MapItem]()
    keys = set[str]()
    for index, item in enumerate(items):
        field = f"step {name!r}: items[{index}]"
        item_key = str(index) if key is None else check_step_text(f"{field}: its key", key(item))
        encoded = encode_value(payload, item, field, f"items[{index}]")
        if item_key in keys:
            fault = f"has the key {item_key!r} of another item; each needs its own"
            raise InvalidInput([FieldError(field, fault)])
        if len(encoded) > ITEM_BYTES_MAX:
            fault = f"has {len(encoded)} bytes; at most {ITEM_BYTES_MAX}; use a reference instead"
            raise InvalidInput([FieldError(field, fault)])
        keys.add(item_key)
        made.append(MapItem(item_key, encoded))
        if len(made) > MAP_ITEMS_MAX:
            fault = f"maps more than {MAP_ITEMS_MAX} items; map the rest in another step"
            raise InvalidInput([FieldError(f"step {name!r}", fault)])
    return made


def _work(
    name: str,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    retries: Retries,
    timeout_seconds: float,
    compensate: Callable[..., Any] | None,
    *,
    has_rows: bool = False,
) -> Work:
    faults: list[FieldError] = []
    called: object = function
    undone_by: object = compensate
    if not callable(called):
        faults.append(_no_function(name, called))
    if undone_by is not None and not callable(undone_by):
        faults.append(_no_function(name, undone_by))
    if timeout_seconds is not STEP_TIMEOUT_SECONDS and not _may_take(timeout_seconds):
        fault = f"must be above 0 seconds and at most a year, not {shown(timeout_seconds)}"
        faults.append(FieldError("timeout_seconds", fault))
    if faults:
        raise InvalidInput(faults)
    return Work(
        function,
        args,
        retries if retries is DEFAULT_RETRIES else check_retries("retries", retries),
        timeout_seconds,
        compensate,
        has_rows=has_rows,
    )


def _no_function(name: str, given: object) -> FieldError:
    return FieldError(f"step {name!r}", f"calls {shown(given)}, which is not a function")


def _may_take(seconds: float) -> bool:
    return _is_number(seconds) and 0 < seconds <= 86_400 * 365


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
