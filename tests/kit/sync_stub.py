"""Writes the types of `app.sync` from the signatures of the app: `python -m tests.kit.sync_stub`.

Each `async def` becomes a `def`. The classes of `WAITED` get the prefix `Sync` where a call returns
them. A queue may be given as either of its two objects, which have one base class.
"""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

from tickwork.facade import sync_app
from tickwork.facade.app import Tickwork
from tickwork.facade.overview import Overview
from tickwork.facade.queue_app import QueueApp
from tickwork.facade.sync_calls import NOT_WAITED, WAITED

STUB = Path(sync_app.__file__).with_suffix(".pyi")
HEAD = "# Written by `python -m tests.kit.sync_stub` from the signatures of the app.\n"
AWAITED = {"Awaitable": 0, "Coroutine": 2}
"""Generic types that stand for what one awaits, and which of their arguments that is."""

WAITED_NAMES = {cls.__name__ for cls in WAITED}
ANY_QUEUE = "NamedQueue"


class Names:
    """The imports of the stub."""

    def __init__(self) -> None:
        self._origins: dict[str, str] = {"NamedQueue": "tickwork.app.message"}
        self._known: dict[str, dict[str, str]] = {}

    def add(self, name: str, module: str) -> None:
        """Imports a name of a module that has it by an import, or of its own."""
        origin = self._of(module).get(name)
        if origin is not None:
            # Two type variables of one name are as good as one.
            self._origins.setdefault(name, origin)

    def lines(self) -> list[str]:
        return [f"from {origin} import {name}" for name, origin in sorted(self._origins.items())]

    def _of(self, module: str) -> dict[str, str]:
        """Where the names of a module come from."""
        if module not in self._known:
            tree = ast.parse(inspect.getsource(sys.modules[module]))
            statements = [*tree.body]
            for statement in tree.body:
                if isinstance(statement, ast.If):
                    statements += statement.body
            names = self._known[module] = {}
            for statement in statements:
                if isinstance(statement, ast.ImportFrom) and statement.module:
                    for alias in statement.names:
                        names[alias.asname or alias.name] = statement.module
                elif isinstance(statement, ast.Import):
                    names.update({alias.name: alias.name for alias in statement.names})
                elif isinstance(statement, ast.Assign):
                    for target in statement.targets:
                        names[ast.unparse(target)] = module
                elif isinstance(statement, ast.ClassDef):
                    names[statement.name] = module
        return self._known[module]


class Annotation(ast.NodeTransformer):
    """An annotation of a call that waits."""

    def __init__(self, names: Names, module: str, *, is_returned: bool) -> None:
        self._names = names
        self._module = module
        self._is_returned = is_returned

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in WAITED_NAMES:
            return ast.Name(f"Sync{node.id}" if self._is_returned else ANY_QUEUE)
        self._names.add(node.id, self._module)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        place = AWAITED.get(ast.unparse(node.value))
        if not self._is_returned or place is None:
            return self.generic_visit(node)
        inner = node.slice.elts[place] if isinstance(node.slice, ast.Tuple) else node.slice
        found = self.visit(inner)
        assert isinstance(found, ast.AST)
        return found


class Stub:
    """The text of the stub."""

    def __init__(self) -> None:
        self._names = Names()

    def text(self) -> str:
        apps = [_class(cls) for cls in (Overview, QueueApp, Tickwork)]
        parts = [self._written(cls.__name__, [_class(cls)], cls.__module__) for cls in WAITED]
        modules = [cls.__module__ for cls in (Overview, QueueApp, Tickwork)]
        own = [
            line
            for tree, module in zip(apps, modules, strict=True)
            for line in self._members(tree, module, without=NOT_WAITED)
        ]
        parts.append("\n".join(["class SyncApp:", *own]))
        return "\n".join([HEAD, *self._names.lines(), "", *parts, ""])

    def _written(self, name: str, trees: list[ast.ClassDef], module: str) -> str:
        bases = [ast.unparse(base) for tree in trees for base in self._bases(tree, module)]
        base = f"({', '.join(bases)})" if bases else ""
        members = [line for tree in trees for line in self._members(tree, module)]
        return "\n".join([f"class Sync{name}{base}:", *members])

    def _bases(self, tree: ast.ClassDef, module: str) -> list[ast.AST]:
        returned = Annotation(self._names, module, is_returned=False)
        return [returned.visit(base) for base in tree.bases]

    def _members(
        self, tree: ast.ClassDef, module: str, without: frozenset[str] = frozenset()
    ) -> list[str]:
        lines: list[str] = []
        overloaded: set[str] = set()
        for member in tree.body:
            if not isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            if member.name == "__init__":
                lines += self._attributes(member, module)
            if member.name in without or member.name in overloaded:
                continue
            if member.name.startswith("_") and member.name not in ("__getattr__", "__call__"):
                continue
            if _decorators(member) == ["overload"] and not _is_last_overload(tree, member):
                pass
            elif _decorators(member) == ["overload"]:
                overloaded.add(member.name)
            lines += self._function(member, module)
        return lines or ["    ..."]

    def _attributes(self, init: Any, module: str) -> list[str]:
        """Public attributes: arguments that are kept, and nouns."""
        given = {
            argument.arg: argument.annotation
            for argument in [*init.args.args, *init.args.kwonlyargs]
            if argument.annotation is not None
        }
        lines = []
        for statement in init.body:
            for target, value in _assigned(statement):
                if not (isinstance(target, ast.Attribute) and not target.attr.startswith("_")):
                    continue
                if isinstance(value, ast.Name) and value.id in given:
                    returned = Annotation(self._names, module, is_returned=True)
                    kind = ast.unparse(returned.visit(given[value.id]))
                    lines.append(f"    {target.attr}: {kind}")
                elif isinstance(value, ast.Call) and ast.unparse(value.func) in WAITED_NAMES:
                    lines.append(f"    {target.attr}: Sync{ast.unparse(value.func)}")
        return lines

    def _function(self, member: ast.FunctionDef | ast.AsyncFunctionDef, module: str) -> list[str]:
        taken = Annotation(self._names, module, is_returned=False)
        returned = Annotation(self._names, module, is_returned=True)
        arguments = member.args
        for argument in [
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            *filter(None, [arguments.vararg, arguments.kwarg]),
        ]:
            if argument.annotation is not None:
                argument.annotation = taken.visit(argument.annotation)
        arguments.defaults = [ast.Constant(...) for _ in arguments.defaults]
        arguments.kw_defaults = [
            None if default is None else ast.Constant(...) for default in arguments.kw_defaults
        ]
        decorators = [f"    @{name}" for name in _decorators(member)]
        for name in _decorators(member):
            self._names.add(name, module)
        assert member.returns is not None, member.name
        answer = ast.unparse(returned.visit(member.returns))
        line = f"    def {member.name}({ast.unparse(arguments)}) -> {answer}: ..."
        return [*decorators, line]


def _class(cls: type[Any]) -> ast.ClassDef:
    (tree,) = ast.parse(dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    return tree


def _decorators(member: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    return [ast.unparse(decorator) for decorator in member.decorator_list]


def _is_last_overload(tree: ast.ClassDef, member: ast.AST) -> bool:
    """Whether the next function of this name is the one that is overloaded."""
    assert isinstance(member, ast.FunctionDef | ast.AsyncFunctionDef)
    alike = [
        other
        for other in tree.body
        if isinstance(other, ast.FunctionDef | ast.AsyncFunctionDef) and other.name == member.name
    ]
    following = alike[alike.index(member) + 1]
    return _decorators(following) != ["overload"]


def _assigned(statement: ast.stmt) -> list[tuple[ast.expr, ast.expr]]:
    if not isinstance(statement, ast.Assign):
        return []
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return [*zip(target.elts, value.elts, strict=True)]
    return [(target, value)]


def formatted(text: str) -> str:
    """The text as the formatter of the project writes it."""
    ruff = Path(sys.executable).with_name("ruff")
    done = text
    for command in (["check", "--select", "I", "--fix", "-q"], ["format", "-q"]):
        done = subprocess.run(
            [ruff, *command, "--stdin-filename", str(STUB), "-"],
            input=done,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    return done


def stub_text() -> str:
    """What the stub should contain."""
    return formatted(Stub().text())


if __name__ == "__main__":
    STUB.write_text(stub_text(), encoding="utf-8")
