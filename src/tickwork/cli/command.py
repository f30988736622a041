"""Commands made from declarations; what all of them do alike is done here.

A command is a verb and what its decorator says. `Group.client_command` takes a verb of a client,
which works on a server and on a database; `database_command` a verb of a `Context`, which works on
a database only; `plain_command` a function of neither. The other parameters of the verb are its
options and arguments (`options.py`); one without a default must be given.

Contract: a verb gets values, not texts. It returns a `Report`, or something that `show` turns into
lines and tables; --json prints the value itself. An error of the verb becomes one line that names
the option. A command starts fast: values are not converted by click's types, and verbs import what
they need when they run.
"""

from __future__ import annotations

import inspect
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from types import SimpleNamespace, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Concatenate,
    TypeAlias,
    TypedDict,
    TypeVar,
    Union,
    Unpack,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
    overload,
)

import click
from msgspec import Struct
from msgspec.structs import fields

from tickwork.cli.options import (
    CONNECTION,
    OPTION_OF_FIELD,
    Argument,
    Connection,
    Declared,
    Option,
    OptionsOf,
)
from tickwork.cli.output import (
    EXIT_BAD_USAGE,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    Report,
    Show,
    fail,
    print_error,
    print_report,
)
from tickwork.cli.start_errors import errors_of_start
from tickwork.cli.values import number, whole_number

if TYPE_CHECKING:
    from tickwork.client.client import Client
    from tickwork.core.options.declared import DeclaredField
    from tickwork.ops.context import Context

T = TypeVar("T")
Verb = Callable[..., Any]
ClientVerb: TypeAlias = "Callable[Concatenate[Client, ...], Awaitable[T]]"
ContextVerb: TypeAlias = "Callable[Concatenate[Context, ...], Awaitable[T]]"


_HELP_OPTIONS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


class Traits(TypedDict, total=False):
    """What a command does besides its verb.

    With `tenant` (usual) it acts for one tenant and has --tenant; a database command without it
    acts for all. `on_database` gives a plain command the options that choose a database. `shared`
    gives it --shared, `watch` --watch, `json` (usual) --json. With `create` it makes a missing
    SQLite file.
    """

    tenant: bool
    on_database: bool
    shared: bool
    watch: bool
    json: bool
    create: bool


class Parameter:
    """A parameter of a verb, and the option or argument that gives its value."""

    def __init__(self, name: str, hint: Any, default: Any = inspect.Parameter.empty) -> None:
        kind, self.declared = _declared(hint)
        self.name = name
        self.is_required = default is inspect.Parameter.empty
        self._default = None if self.is_required else default
        self._is_flag = kind is bool
        self._is_list = get_origin(kind) is list
        self._option = self.declared.name or f"--{name.replace('_', '-')}"
        self._read = self.declared.read or _READERS.get(kind)

    @property
    def label(self) -> str:
        """What errors call it."""
        if isinstance(self.declared, Argument):
            return (self.declared.metavar or self.name).partition("|")[0]
        return self._option.partition("/")[0]

    def of_click(self) -> click.Parameter:
        """What click parses and explains."""
        declared = self.declared
        if isinstance(declared, Argument):
            argument = _Argument(
                [self.name],
                metavar=declared.metavar,
                help=declared.help,
                required=False,
                nargs=-1 if self._is_list else 1,
            )
            argument.may_be_left_out = not self.is_required
            return argument
        return click.Option(
            [self.name, self._option],
            metavar=None if self._is_flag else declared.metavar,
            help=declared.help,
            is_flag=self._is_flag,
            multiple=self._is_list,
            default=None,
        )

    def value(self, given: Any) -> Any:
        """The value of what was given; exits if it is missing or malformed."""
        if given is None or given == ():
            if self.is_required:
                hint = self.declared.missing
                fault = " is missing; see --help" if hint is None else f": is missing; {hint}"
                fail(f"{self.label}{fault}", code=EXIT_BAD_USAGE)
            return self._default
        if self._read is None:
            return [*given] if self._is_list else given
        return self._read(given, self.label)

    async def found(self, value: Any, context: Context | None) -> Any:
        """The whole id, or ids, that a value names; any other value as it is. `context` is None on
        a server, which does not know the last digits of ids."""
        from tickwork.cli.store_session import whole_id

        hint = self.declared.database_only
        if hint is not None and value is not None and context is None:
            fail(f"{self.label} needs --database{hint}", code=EXIT_BAD_USAGE)
        kind = self.declared.id_of
        if kind is None or value is None:
            return value
        if isinstance(value, list):
            return [await whole_id(context, kind, member, self.label) for member in value]
        return await whole_id(context, kind, value, self.label)


class _Argument(click.Argument):
    """An argument; the usage shows one that may be left out in brackets. To click all may be: it is
    not click that says which is missing."""

    may_be_left_out = False

    def make_metavar(self, ctx: click.Context) -> str:  # noqa: ARG002
        shown = f"[{self.metavar}]" if self.may_be_left_out else self.metavar or ""
        return f"{shown}..." if self.nargs == -1 else shown

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:  # noqa: ARG002
        return self.metavar or "", self.help or ""


_READERS: Mapping[Any, Callable[[Any, str], Any]] = {int: whole_number, float: number}
"""How a text is read, by the type of the parameter."""


def _declared(hint: Any) -> tuple[Any, Declared]:
    """The type of a parameter, without None, and its declaration."""
    for member in _members(hint):
        if get_origin(member) is Annotated:
            kind, declared = get_args(member)[:2]
            return next(part for part in _members(kind) if part is not type(None)), declared
    raise TypeError(f"{hint} is no option or argument")


def _members(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


class Parameters:
    """The parameters of a verb but those that it gets from here. One whose type is a `Struct`
    stands for the options that its fields declare; one whose type is a `TypedDict` for those of
    the fields of a request, of which it gets what was given."""

    def __init__(self, verb: Verb, skipped: int) -> None:
        own = [*inspect.signature(verb).parameters.values()][skipped:]
        # Only these: the others are annotated by names that only a type checker imports.
        texts = SimpleNamespace(__annotations__={one.name: one.annotation for one in own})
        hints = get_type_hints(texts, verb.__globals__, include_extras=True)
        self._structs: dict[str, type[Struct]] = {}
        self._requests: dict[str, list[str]] = {}
        self.all: list[Parameter] = []
        for parameter in own:
            name, hint = parameter.name, hints[parameter.name]
            if isinstance(hint, type) and issubclass(hint, Struct):
                self._structs[name] = hint
                self.all += _of_struct(hint)
            elif is_typeddict(hint) or is_typeddict(getattr(hint, "__origin__", None)):
                options = _of_request(hint)
                self._requests[name] = [option.name for option in options]
                self.all += options
            else:
                self.all.append(Parameter(name, hint, parameter.default))

    def arguments(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What the verb is called with."""
        arguments = dict(values)
        for name, group in self._structs.items():
            arguments[name] = group(
                **{field: arguments.pop(field) for field in group.__struct_fields__}
            )
        for name, options in self._requests.items():
            chosen = {option: arguments.pop(option) for option in options}
            arguments[name] = {
                option: value for option, value in chosen.items() if value is not None
            }
        return arguments


def _of_struct(group: type[Struct]) -> list[Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [Parameter(field.name, hints[field.name], field.default) for field in fields(group)]


def _of_request(hint: Any) -> list[Parameter]:
    from tickwork.core.options.declared import fields_of

    request, options = get_args(hint) if get_origin(hint) is Annotated else (hint, OptionsOf())
    hints = {
        name: options.given[name]
        if name in options.given
        else _plain_option(field, options.are_texts)
        for name, field in fields_of(request).items()
    }
    return [Parameter(name, hint, None) for name, hint in hints.items() if hint is not None]


def _plain_option(field: DeclaredField, is_text: bool) -> Any:
    """The option of a number, a text or a choice; None for another field."""
    kind = str if field.choices else field.kind
    if kind in (int, float):
        words = field.name.split("_")
        metavar = next((word.upper() for word in words if word in ("seconds", "bytes")), "N")
    elif kind is str or is_text:
        metavar = "|".join(field.choices) or field.name.rpartition("_")[2].upper()
    else:
        return None
    return Annotated[str if is_text else kind, Option(field.description, metavar)]


def _added(name: str, kind: Any, help_text: str, metavar: str | None, option: str) -> Parameter:
    return Parameter(name, Annotated[kind, Option(help_text, metavar, name=option)], None)


_DATABASE = (
    _added("database", str, "Database to use; default sqlite:///tickwork.db.", "URL", "--database"),
)
_PLACES = (
    _added("app", str, "Use the database and the tenant of this app.", "MODULE:APP", "--app"),
    _added(
        "server",
        str,
        "Use this server instead of a database; default TICKWORK_URL.",
        "URL",
        "--server",
    ),
    _added(
        "api_key",
        str,
        "API key of the server, @FILE, or - to be asked; default TICKWORK_KEY.",
        "KEY",
        "--api-key",
    ),
)
_TENANT = _added("tenant", str, 'Tenant to act for; default "default".', "TENANT", "--tenant")
_SHARED = _added(
    "shared", bool, "Use the shared queue, with the messages of all tenants.", None, "--shared"
)
_JSON = _added("as_json", bool, "Print JSON.", None, "--json")
_WATCH = _added(
    "watch", float, "Show it again and again, with this pause, until Ctrl-C.", "SECONDS", "--watch"
)


class Command(click.Command, ABC):
    """A verb and how it runs."""

    skips: ClassVar[int] = 1
    """Parameters of the verb that are no options."""

    def __init__(
        self, name: str, verb: Verb, show: Show[Any] | None = None, **traits: Unpack[Traits]
    ) -> None:
        self.verb = verb
        self.show = show
        self.traits = traits
        self._parameters = Parameters(verb, self.skips)
        self.own = self._parameters.all
        names = {parameter.name for parameter in self.own}
        self._added = [part for part in self._given_to_all() if part.name not in names]
        super().__init__(
            name,
            params=[parameter.of_click() for parameter in (*self.own, *self._added)],
            help=inspect.cleandoc(verb.__doc__ or ""),
            context_settings=_HELP_OPTIONS,
        )

    def _given_to_all(self) -> Iterator[Parameter]:
        """The options besides those of the verb."""
        traits = self.traits
        if traits.get("watch"):
            yield _WATCH
        if traits.get("on_database", True):
            yield from (*_DATABASE, *_PLACES)
            if traits.get("tenant", True):
                yield _TENANT
            if traits.get("shared"):
                yield _SHARED
        if traits.get("json", True):
            yield _JSON

    def invoke(self, ctx: click.Context) -> Any:
        from tickwork.cli.store_session import report_errors

        given = {part.name: part.value(ctx.params[part.name]) for part in self.own}
        added = {part.name: part.value(ctx.params[part.name]) for part in self._added}
        as_json = given.get("as_json", added.get("as_json", False))
        code = 0

        def once() -> None:
            nonlocal code
            result = report_errors(lambda: self.run(given), names=self.names(given))
            code = self._print(result, as_json=as_json)

        connection = CONNECTION.set(self._connection(given, added))
        try:
            _watched(once, added.get("watch"))
        except KeyboardInterrupt:
            code = EXIT_INTERRUPTED
        finally:
            CONNECTION.reset(connection)
        if code:
            raise click.exceptions.Exit(code)

    def _connection(self, given: Mapping[str, Any], added: Mapping[str, Any]) -> Connection:
        chosen = {name: added[name] for name in Connection._fields if name in added}
        return Connection(**{"shared": given.get("shared", False), **chosen})

    @abstractmethod
    def run(self, given: dict[str, Any]) -> Any:
        """What the verb returns; exits if it fails."""

    async def found(self, given: dict[str, Any], context: Context | None) -> dict[str, Any]:
        """The arguments of the verb, with whole ids."""
        values = {part.name: await part.found(given[part.name], context) for part in self.own}
        return self._parameters.arguments(values)

    def _print(self, result: Any, *, as_json: bool) -> int:
        report = result
        if self.show is not None:
            report = Report(result, *(() if as_json else self.show(result)))
        if report is None:
            return 0
        print_report(report, as_json=as_json)
        return int(report.exit_code)

    def names(self, given: Mapping[str, Any]) -> dict[str, str]:
        """The option of each field that an error may name. A field of --fields has its own name."""
        names = dict(OPTION_OF_FIELD)
        for part in self.own:
            names |= dict.fromkeys((part.name, *part.declared.fields), part.label)
            if part.declared.id_of is not None:
                names["id"] = part.label
        further = given.get("fields")
        return {
            field: name
            for field, name in names.items()
            if not isinstance(further, dict) or field.partition(".")[0] not in further
        }


WATCH_SECONDS_MIN = 0.1
"""Minimum number of seconds between two looks."""

_CLEAR = "\x1b[H\x1b[2J"


def _watched(show: Callable[[], None], every: float | None) -> None:
    """Runs `show` once, or again and again until Ctrl-C. A terminal is cleared before each look."""
    if every is None:
        show()
        return
    if not every >= WATCH_SECONDS_MIN:
        fail(f"--watch: must be at least {WATCH_SECONDS_MIN} seconds", code=EXIT_BAD_USAGE)
    with suppress(KeyboardInterrupt):
        while True:
            if sys.stdout.isatty():
                click.echo(_CLEAR, nl=False)
            show()
            sys.stdout.flush()
            time.sleep(every)


class ClientCommand(Command):
    """A command on a server or on a database."""

    def run(self, given: dict[str, Any]) -> Any:
        from tickwork.cli.session import ask, local_context

        async def work(client: Client) -> Any:
            return await self.verb(client, **await self.found(given, local_context()))

        return ask(work, create=self.traits.get("create", False))


class DatabaseCommand(Command):
    """A command on a database."""

    def run(self, given: dict[str, Any]) -> Any:
        from tickwork.cli.store_session import with_context
        from tickwork.core.model import SYSTEM

        async def work(context: Context) -> Any:
            return await self.verb(context, **await self.found(given, context))

        scope = None if self.traits.get("tenant", True) else SYSTEM
        return with_context(work, scope=scope, create=self.traits.get("create", False))


class PlainCommand(Command):
    """A command without a client or a context."""

    skips = 0

    def __init__(
        self, name: str, verb: Verb, show: Show[Any] | None = None, **traits: Unpack[Traits]
    ) -> None:
        traits.setdefault("on_database", False)
        super().__init__(name, verb, show, **traits)

    def run(self, given: dict[str, Any]) -> Any:
        return self.verb(**self._parameters.arguments(given))


class Group(click.Group):
    """A group of commands; a usage error prints one line and exits."""

    def __init__(self, help: str, **options: Any) -> None:  # noqa: A002  as click calls it
        options |= {"context_settings": _HELP_OPTIONS, "no_args_is_help": False}
        super().__init__(help=help, **options)

    @overload
    def client_command(
        self, name: str, *, show: Show[T], **traits: Unpack[Traits]
    ) -> Callable[[ClientVerb[T]], Command]: ...
    @overload
    def client_command(
        self, name: str, **traits: Unpack[Traits]
    ) -> Callable[[ClientVerb[Report | None]], Command]: ...
    def client_command(
        self, name: str, *, show: Show[Any] | None = None, **traits: Unpack[Traits]
    ) -> Callable[[Verb], Command]:
        """Adds a verb of a client. Without `show` it returns a `Report`."""
        return lambda verb: self._adds(ClientCommand(name, verb, show, **traits))

    @overload
    def database_command(
        self, name: str, *, show: Show[T], **traits: Unpack[Traits]
    ) -> Callable[[ContextVerb[T]], Command]: ...
    @overload
    def database_command(
        self, name: str, **traits: Unpack[Traits]
    ) -> Callable[[ContextVerb[Report | None]], Command]: ...
    def database_command(
        self, name: str, *, show: Show[Any] | None = None, **traits: Unpack[Traits]
    ) -> Callable[[Verb], Command]:
        """Adds a verb of a context."""
        return lambda verb: self._adds(DatabaseCommand(name, verb, show, **traits))

    @overload
    def plain_command(
        self, name: str, *, show: Show[T], **traits: Unpack[Traits]
    ) -> Callable[[Callable[..., T]], Command]: ...
    @overload
    def plain_command(
        self, name: str, **traits: Unpack[Traits]
    ) -> Callable[[Callable[..., Report | None]], Command]: ...
    def plain_command(
        self, name: str, *, show: Show[Any] | None = None, **traits: Unpack[Traits]
    ) -> Callable[[Verb], Command]:
        """Adds a function that needs neither."""
        return lambda verb: self._adds(PlainCommand(name, verb, show, **traits))

    def _adds(self, command: Command) -> Command:
        self.add_command(command)
        return command

    def default(self, **traits: Unpack[Traits]) -> Callable[[Callable[..., None]], Command]:
        """Gives the group options and what it does without a command."""

        def give(verb: Callable[..., None]) -> Command:
            command = PlainCommand("", verb, **traits)
            self.params = command.params
            self.invoke_without_command = True

            def callback(**given: Any) -> None:
                context = click.get_current_context()
                if context.invoked_subcommand is None:
                    command.invoke(context)
                elif any(given.values()):
                    fault = f"give options after {context.invoked_subcommand}, not before it"
                    fail(fault, code=EXIT_BAD_USAGE)

            self.callback = callback
            return command

        return give

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return [*self.commands]  # As they are declared.

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        words = sys.argv[1:] if args is None else args
        with errors_of_start(words):
            try:
                code = super().main(
                    args,
                    prog_name,
                    complete_var,
                    standalone_mode=False,
                    windows_expand_args=windows_expand_args,
                    **extra,
                )
            except click.ClickException as error:
                print_error(_said(error))
                code = error.exit_code
            except click.Abort:
                print_error("aborted")
                code = EXIT_FAILED
        if standalone_mode:
            sys.exit(code if isinstance(code, int) else 0)
        return code


def _said(error: click.ClickException) -> str:
    """What an error of the usage says, and where it leads: to what the command takes."""
    text, context = error.format_message(), getattr(error, "ctx", None)
    if context is None or "Did you mean" in text:
        return text
    return f"{text.removesuffix('.')}; see `{context.command_path} --help`"


class LateCommands(Mapping[str, click.Command]):
    """Commands by name, each imported when it is asked for: to import all takes longer than most of
    them run. `where` names the `module:group` of each, or the `module:group.command`."""

    def __init__(self, where: Mapping[str, str]) -> None:
        self._where = where

    def __getitem__(self, name: str) -> click.Command:
        module, _, attribute = self._where[name].partition(":")
        group, _, command = attribute.partition(".")
        found = getattr(import_module(f"tickwork.cli.{module}"), group)
        if command:
            found = found.commands[command]
        assert isinstance(found, click.Command)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._where)

    def __len__(self) -> int:
        return len(self._where)
