"""Typer commands and groups that start fast and report errors in one line.

Contract: an option's value is the text that was given, or a flag. Typer would convert each value
with pydantic, whose import takes longer than the rest of the start-up. Our verbs parse texts
themselves and report faults the same way to every caller. So each command checks by itself that
its arguments are given, and the usage shows an argument that is not a list as required.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

from tickwork.cli.options import CHOSEN_APP
from tickwork.cli.output import EXIT_FAILED, print_error

_HELP_OPTIONS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


class Command(TyperCommand):
    """A command whose option values are not converted. With --database it also has --app, the
    app whose database it uses."""

    def __init__(self, name: str | None, *, params: list[Any] | None = None, **given: Any) -> None:
        given["context_settings"] = _HELP_OPTIONS | (given.get("context_settings") or {})
        super().__init__(name, params=_with_app(params or []), **given)

    def invoke(self, ctx: Any) -> Any:
        chosen = CHOSEN_APP.set(ctx.params.pop("app", None))
        try:
            return super().invoke(ctx)
        finally:
            CHOSEN_APP.reset(chosen)

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
            print_error(error.format_message())
            code = error.exit_code
        except typer.Abort:
            print_error("aborted")
            code = EXIT_FAILED
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else 0)
        return code


def _with_app(params: list[Any]) -> list[Any]:
    """Returns the parameters with --app behind --database."""
    extended: list[Any] = []
    for each in params:
        extended.append(each)
        if each.name == "database":
            extended.append(
                TyperOption(
                    param_decls=["app", "--app"],
                    type_descriptor=each.type_descriptor,
                    metavar="MODULE:APP",
                    help="Use the database and the tenant of this app.",
                )
            )
    return extended


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
