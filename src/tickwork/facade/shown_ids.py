"""Ids as an app's nouns show and take them.

What a verb returns has ids that are written with the prefix of their kind, such as `dead_0199…`.
A verb also takes such an id; behind it, ids are plain UUIDs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, TypeVar

from tickwork.core.answers.ids import with_prefixes

Noun = TypeVar("Noun")


def shows_ids(noun: type[Noun]) -> type[Noun]:
    """Decorates a class whose verbs return records: their ids get their prefixes."""
    for name, verb in list(vars(noun).items()):
        if iscoroutinefunction(verb) and not name.startswith("_"):
            setattr(noun, name, _showing(verb))
    return noun


def _showing(verb: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(verb)
    async def call(*args: Any, **options: Any) -> Any:
        return with_prefixes(await verb(*args, **options))

    return call
