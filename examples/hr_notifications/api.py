"""The HTTP API of the HR app. Users reach only their own schedules; the admin sees all that come.

`HR_SHAPE=entities` uses one entity per user instead of a schedule per row.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import ModuleType
from typing import Any, TypeAlias

from litestar import Litestar, Request, Response, delete, get, post, put
from litestar.datastructures import State
from litestar.di import NamedDependency
from litestar.exceptions import NotAuthorizedException, PermissionDeniedException
from litestar.params import FromPath, FromQuery, JSONBody

from examples.hr_notifications import entities, rows
from examples.hr_notifications.app import app
from examples.hr_notifications.request import NewSchedule, ScheduleRow, Timing, UpcomingRow
from examples.hr_notifications.users import User, user_of
from tickwork import InvalidInput, NotFound

UPCOMING_MAX = 100
PATH = "/notifications/schedules"

CurrentUser: TypeAlias = NamedDependency[User]


async def current_user(request: Request[Any, Any, Any]) -> User:
    """Return the user of a request."""
    user = user_of(request.headers.get("Authorization"))
    if user is None:
        raise NotAuthorizedException("send Authorization: Bearer and a valid token")
    return user


@post(PATH)
async def create(data: JSONBody[NewSchedule], user: CurrentUser, state: State) -> ScheduleRow:
    """Schedule a job."""
    made: ScheduleRow = await state.shape.create(user, data)
    return made


@get(PATH)
async def list_rows(user: CurrentUser, state: State) -> list[ScheduleRow]:
    """List the user's schedules."""
    found: list[ScheduleRow] = await state.shape.rows(user)
    return found


@put(PATH + "/{schedule_id:str}")
async def change(
    schedule_id: FromPath[str], data: JSONBody[Timing], user: CurrentUser, state: State
) -> ScheduleRow:
    """Give a schedule another time."""
    changed: ScheduleRow = await state.shape.change(user, schedule_id, data)
    return changed


@post(PATH + "/{schedule_id:str}/pause", status_code=200)
async def pause(schedule_id: FromPath[str], user: CurrentUser, state: State) -> ScheduleRow:
    """Stop a schedule for a while."""
    paused: ScheduleRow = await state.shape.pause(user, schedule_id)
    return paused


@post(PATH + "/{schedule_id:str}/resume", status_code=200)
async def resume(schedule_id: FromPath[str], user: CurrentUser, state: State) -> ScheduleRow:
    """Let a paused schedule go on."""
    resumed: ScheduleRow = await state.shape.resume(user, schedule_id)
    return resumed


@delete(PATH + "/{schedule_id:str}")
async def delete_row(schedule_id: FromPath[str], user: CurrentUser, state: State) -> None:
    """Delete a schedule."""
    await state.shape.delete(user, schedule_id)


@get("/admin/upcoming")
async def upcoming(
    user: CurrentUser, state: State, count: FromQuery[int] = 20
) -> list[UpcomingRow]:
    """List the next runs of all users."""
    if not user.is_admin:
        raise PermissionDeniedException("only admins may see the schedules of all users")
    found: list[UpcomingRow] = await state.shape.upcoming(min(max(count, 1), UPCOMING_MAX))
    return found


def refuse(_request: Request[Any, Any, Any], error: InvalidInput) -> Response[Any]:
    """Answer 400 with the fields."""
    faults = [{"field": fault.field, "message": fault.message} for fault in error.errors]
    return Response({"errors": faults}, status_code=400)


def not_found(_request: Request[Any, Any, Any], error: NotFound) -> Response[Any]:
    """Answer 404, also for the schedules of others."""
    return Response({"errors": [{"field": "id", "message": str(error)}]}, status_code=404)


@asynccontextmanager
async def lifespan(_api: Litestar) -> AsyncIterator[None]:
    """Run workers and scheduler in the process of the API."""
    async with app.running():
        yield


def new_api(shape: ModuleType) -> Litestar:
    """Return the API on one of the two shapes: `rows` or `entities`."""
    return Litestar(
        [create, list_rows, change, pause, resume, delete_row, upcoming],
        dependencies={"user": current_user},
        exception_handlers={InvalidInput: refuse, NotFound: not_found},
        lifespan=[lifespan],
        state=State({"shape": shape}),
        openapi_config=None,
    )


api = new_api(entities if os.environ.get("HR_SHAPE") == "entities" else rows)
