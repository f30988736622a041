"""A point at every await of the work of runs, entities or other handlers: `await`.

The point is reached when a coroutine is suspended: what it asked for is on its way, and may or may
not be carried out. Loops that do something else (leases, claims, wake-ups) have no point.
"""

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from functools import wraps
from typing import Any

from tests.kit.points import reach
from tickwork.entity.consumer import EntityHandler
from tickwork.service import process_lifecycle
from tickwork.workflow.consumer import Runner

POINT = "await"
_WORK = ("/workflow/", "/entity/", "/shared/group_commit", "/shared/joint_commit", "/worker/settle")
"""Parts of the paths of modules whose tasks belong to the work."""


@types.coroutine
def reaching(work: Any) -> Generator[Any, Any, Any]:
    """Awaits something, and reaches the point each time it is suspended."""
    inner, value, error = work.__await__(), None, None
    while True:
        try:
            waited = inner.send(value) if error is None else inner.throw(error)
        except StopIteration as end:
            return end.value
        reach(POINT)
        value = error = None
        try:
            value = yield waited
        except BaseException as raised:
            error = raised


def make_task(
    loop: asyncio.AbstractEventLoop, work: Any, context: Context | None = None
) -> asyncio.Task[Any]:
    """A task factory: tasks of the work reach the point."""
    code = getattr(work, "cr_code", None)
    if code is not None and any(part in code.co_filename for part in _WORK):

        async def run() -> Any:
            return await reaching(work)

        return asyncio.Task(run(), loop=loop, context=context)
    return asyncio.Task(work, loop=loop, context=context)


def stop_at_awaits(*more: type[Any]) -> None:
    """From now on, in the workers of this process, whose handlers may be of more kinds."""
    kinds: tuple[type[Any], ...] = (Runner, EntityHandler, *more)
    for kind in kinds:
        setattr(kind, "handle", _reaching_method(kind.handle))  # noqa: B010
    new_loop = vars(process_lifecycle)["new_loop"]

    def make_loop() -> asyncio.AbstractEventLoop:
        loop: asyncio.AbstractEventLoop = new_loop()
        loop.set_task_factory(make_task)
        return loop

    vars(process_lifecycle)["new_loop"] = make_loop


def _reaching_method(
    method: Callable[..., Coroutine[Any, Any, Any]],
) -> Callable[..., Coroutine[Any, Any, Any]]:
    @wraps(method)
    async def handled(*arguments: Any) -> Any:
        return await reaching(method(*arguments))

    return handled
