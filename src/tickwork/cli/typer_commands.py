"""Our own kinds of command and group: quick to start, and brief about what is wrong.

Contract: an option's value is the text that was given, or a flag. typer would turn each into
its type with pydantic, even a text into a text, and importing pydantic takes longer than
anything else at start-up. Ours need none of it: the use-cases read texts, and name what is
wrong with them in one way for every caller. So a command says by itself that an argument is
missing; one that is not a list must be given, and its usage shows it so. What typer itself
complains about is said in one sentence.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from tickwork.cli.output import EXIT_FAILED, say


class Command(TyperCommand):
    """A command that takes texts as they were given."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _as_given(super().get_params(ctx))


class Group(TyperGroup):
    """A group of such commands; what is wrong with a call is one line and an exit code."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _as_given(super().get_params(ctx))

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
            say(error.format_message())
            code = error.exit_code
        except typer.Abort:
            say("stopped")
            code = EXIT_FAILED
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else 0)
        return code


def _as_given(params: list[Any]) -> list[Any]:
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
