"""Typer commands and groups that start fast and report errors in one line.

Contract: an option's value is the text that was given, or a flag. Typer would convert each value
with pydantic, whose import takes longer than the rest of the start-up. Our verbs parse texts
themselves and report faults the same way to every caller. So each command checks by itself that
its arguments are given, and the usage shows an argument that is not a list as required.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.main import get_command_from_info, get_group_from_info
from typer.models import CommandInfo, TyperInfo

from tickwork.cli.options import CHOSEN_APP, CHOSEN_SERVER, ChosenServer
from tickwork.cli.output import EXIT_FAILED, print_error

_HELP_OPTIONS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


class Command(TyperCommand):
    """A command whose option values are not converted. With --database it also has --app, the
    app whose database it uses, and --server and --api-key of a server."""

    def __init__(self, name: str | None, *, params: list[Any] | None = None, **given: Any) -> None:
        given["context_settings"] = _HELP_OPTIONS | (given.get("context_settings") or {})
        super().__init__(name, params=_with_app(params or []), **given)

    def invoke(self, ctx: Any) -> Any:
        chosen = CHOSEN_APP.set(ctx.params.pop("app", None))
        given = ChosenServer(ctx.params.pop("server_url", None), ctx.params.pop("server_key", None))
        server = CHOSEN_SERVER.set(given)
        try:
            return super().invoke(ctx)
        finally:
            CHOSEN_APP.reset(chosen)
            CHOSEN_SERVER.reset(server)

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_conversion(super().get_params(ctx))


class Group(TyperGroup):
    """A group of such commands; a usage error prints one line and exits."""

    def __init__(self, **given: Any) -> None:
        given["context_settings"] = _HELP_OPTIONS | (given.get("context_settings") or {})
        super().__init__(**given)

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_conversion(super().get_params(ctx))

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        try:
            code = super().main(
                args,
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )
        except typer.TyperException as error:
            print_error(f"{error.format_message()}{_usage_of(error)}")
            code = error.exit_code
        except typer.Abort:
            print_error("aborted")
            code = EXIT_FAILED
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else 0)
        return code


class RootGroup(Group):
    """The group of all commands. `where` names the `module:attribute` of each, which is a function
    or a Typer app."""

    where: ClassVar[Mapping[str, str]] = {}

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = _LateCommands(self.where)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return [*self.commands]


class _LateCommands(Mapping[str, Any]):
    """Commands by name, each built when it is asked for: to build all of them takes longer than
    most of them run."""

    def __init__(self, where: Mapping[str, str]) -> None:
        self._where = where
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            module, _, attribute = self._where[name].partition(":")
            found = getattr(import_module(f"tickwork.cli.{module}"), attribute)
            self._built[name] = _build(name, found)
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __len__(self) -> int:
        return len(self._where)


def _build(name: str, found: Any) -> Any:
    options: dict[str, Any] = {"pretty_exceptions_short": True, "rich_markup_mode": None}
    if isinstance(found, typer.Typer):
        return get_group_from_info(TyperInfo(found, name=name), suggest_commands=True, **options)
    return get_command_from_info(CommandInfo(name, cls=Command, callback=found), **options)


def _with_app(params: list[Any]) -> list[Any]:
    """Returns the parameters with --app, --server and --api-key behind --database."""
    extended: list[Any] = []
    for param in params:
        extended.append(param)
        if param.name == "database":
            extended += (_option(param, *words) for words in _PLACES)
    return extended


_PLACES = (
    ("app", "--app", "MODULE:APP", "Use the database and the tenant of this app."),
    (
        "server_url",
        "--server",
        "URL",
        "Use this server instead of a database; default TICKWORK_URL.",
    ),
    (
        "server_key",
        "--api-key",
        "KEY",
        "API key of the server, @FILE, or - to be asked; default TICKWORK_KEY.",
    ),
)
"""Where a command works besides --database: name, option, metavar and help."""


def _option(like: Any, name: str, option: str, metavar: str, text: str) -> Any:
    return TyperOption(
        param_decls=[name, option],
        type_descriptor=like.type_descriptor,
        metavar=metavar,
        help=text,
    )


def _without_conversion(params: list[Any]) -> list[Any]:
    for param in params:
        assert not param.required
        param.process_value = partial(_process, param)
        if param.param_type_name == "argument" and param.nargs == 1:
            param.get_usage_pieces = partial(_usage, param.metavar)
    return params


def _usage(name: str, _: Any) -> list[str]:
    return [name]


def _process(param: Any, ctx: Any, value: Any) -> Any:
    return value if param.callback is None else param.callback(ctx, param, value)


def _usage_of(error: Exception) -> str:
    """Where a usage error of a command leads: what the command takes."""
    command = getattr(error, "ctx", None)
    if command is None or "extra argument" not in str(error):
        return ""
    return f"; see `{command.command_path} --help`"
