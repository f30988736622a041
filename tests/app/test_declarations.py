"""Declarations: what cannot be is refused where it is written, or before anything runs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest

from tickwork import Batch
from tickwork.app.declarations import CONCURRENCY_MAX
from tickwork.app.isolation import MEMORY_BYTES_MIN, Isolation
from tickwork.app.message import Message, MessageBatch
from tickwork.core.message.backoff import Fixed, Listed
from tickwork.core.message.batch import BATCH_COMPLETED
from tickwork.core.model import QueueSettings
from tickwork.errors import InvalidInput
from tickwork.facade.app import Tickwork

IN_PROCESS = {"isolation": "process"}


@pytest.fixture
def app() -> Tickwork:
    """An app with a queue."""
    app = Tickwork()
    app.queue("emails")
    return app


async def handle(message: Message[Any]) -> None:
    """A handler."""


async def handle_batch(batch: MessageBatch[Any]) -> None:
    """A batch handler."""


def plainly(message: Message[Any]) -> None:
    """A plain one."""


async def on_completed(batch: Batch) -> None:
    """A handler of completed batches."""


def faults(refused: pytest.ExceptionInfo[InvalidInput]) -> str:
    return str(refused.value)


def test_a_queue_has_the_settings_it_is_declared_with() -> None:
    app = Tickwork()
    app.queue(
        "emails",
        max_batch_size=7,
        max_batch_timeout=2.5,
        timeout_seconds=30,
        retention_seconds=3600,
    )
    assert app._engine.registry.queues["emails"].settings == QueueSettings(
        max_batch_size=7, max_batch_timeout=2.5, timeout_seconds=30, retention_seconds=3600
    )


def test_a_queue_that_is_named_again_is_the_same(app: Tickwork) -> None:
    app.queue("other", max_retries=7)
    app.queue("other")
    app.queue("other", max_retries=7)
    assert app._engine.registry.queues["other"].settings.max_retries == 7


def test_a_queue_that_is_named_again_keeps_its_payload() -> None:
    app = Tickwork()
    app.queue("numbers", payload=int, max_retries=3)
    app.queue("numbers", max_retries=3)
    assert app._engine.registry.queues["numbers"].payload.declared is int
    app.queue("later", max_retries=3)
    app.queue("later", payload=int)
    assert app._engine.registry.queues["later"].payload.declared is int
    assert app._engine.registry.queues["later"].has_settings


def test_a_queue_with_two_payloads_is_none() -> None:
    app = Tickwork()
    app.queue("numbers", payload=int)
    app.queue("numbers", payload=int)
    with pytest.raises(InvalidInput, match=r"numbers: .*twice, with different payloads"):
        app.queue("numbers", payload=str)


@pytest.mark.parametrize("is_first", [True, False])
def test_who_says_the_settings_of_a_queue_need_not_be_the_first(is_first: bool) -> None:
    """One module may only send, and be imported before that which knows."""
    app = Tickwork()
    said: dict[str, Any] = {"max_retries": 7, "dead_letter_queue": "graves"}
    for settings in (said, {"payload": int}) if is_first else ({"payload": int}, said):
        app.queue("emails", **settings)
    declared = app._engine.registry.queues["emails"]
    assert (declared.settings, declared.has_settings) == (QueueSettings(**said), True)
    assert declared.payload.declared is int
    assert [*app._engine.registry.queues] == ["emails", "graves"]
    with pytest.raises(InvalidInput, match="declared twice, with different settings"):
        app.queue("emails", max_retries=3)


def test_a_queue_with_two_settings_is_none(app: Tickwork) -> None:
    app.queue("others", max_retries=6)
    with pytest.raises(InvalidInput, match="declared twice, with different settings"):
        app.queue("others", max_retries=7)
    with pytest.raises(InvalidInput, match="declared twice"):
        app.queue("emails", shared=True)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"max_retry": 3}, "did you mean 'max_retries'?"),
        ({"colour": "red"}, "colour: is not a known field; use backlog_bytes_max"),
        ({"max_retries": 101}, "max_retries: must be from 0 to 100"),
        ({"dead_letter_queue": "work"}, "must be another queue"),
        ({"max_retries": "3"}, "max_retries: must be a whole number, not '3'"),
        ({"max_retries": True}, "max_retries: must be a whole number, not True"),
        ({"max_batch_size": 5.0}, "max_batch_size: must be a whole number, not 5.0"),
        ({"max_batch_timeout": "5"}, "max_batch_timeout: must be a number, not '5'"),
        ({"dead_letter_queue": 5}, "dead_letter_queue: must be a text, not 5"),
        ({"rate_per_second": True}, "rate_per_second: must be a number, not True"),
        ({"timeout": 10, "timeout_seconds": 20}, "timeout: is not a known field; did you mean"),
        ({"backoff": 60}, "backoff: must be a backoff, such as Fixed(60), "),
        ({"backoff": Fixed("60")}, "backoff.seconds: must be a number, not '60'"),  # type: ignore[arg-type]
        ({"backoff": Fixed(object())}, "backoff.seconds: must be a number, "),  # type: ignore[arg-type]
    ],
)
def test_settings_that_cannot_be_are_named(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Tickwork().queue("work", **settings)
    assert said in faults(refused)


def test_a_number_without_a_fraction_is_one_with_it_and_a_list_of_delays_is_as_good() -> None:
    backoff = Listed([60, 300])  # type: ignore[arg-type]
    Tickwork().queue("work", max_batch_timeout=5, rate_per_second=3, backoff=backoff)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_concurrency": "5"}, "max_concurrency: must be a whole number, not '5'"),
        ({"max_concurrency": True}, "max_concurrency: must be a whole number, not True"),
        ({"cpu_seconds": None}, "cpu_seconds: must be a number, not None"),
        ({"memory_bytes": 1e9}, "memory_bytes: must be a whole number, not 1000000000.0"),
        ({"type": 5}, "type: must be a text, not 5"),
        ({"type": ""}, "type: must have 1 to 512 characters, not 0"),
    ],
)
def test_options_of_the_wrong_kind_are_named(
    app: Tickwork, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        app.on("emails", isolation="process", **options)(handle)
    assert said in faults(refused)


@pytest.mark.parametrize("name", [5, None, b"emails", ["emails"]])
def test_a_queue_is_named_by_a_text(app: Tickwork, name: Any) -> None:
    for declare in (app.queue, app.on, app.consumer, app.on_completed):
        with pytest.raises(InvalidInput, match="must be the name of a queue, a text, not "):
            declare(name)


def test_a_queue_is_declared_by_its_name_and_handled_by_its_name_or_itself(app: Tickwork) -> None:
    emails, parcels = app.queue("emails"), app.queue("parcels")
    wrong: Any = emails
    with pytest.raises(InvalidInput, match=r"must be the name of a queue, .*; give 'emails'"):
        app.queue(wrong)
    app.on(emails, type="welcome")(handle)
    app.consumer(parcels)(handle_batch)
    app.on_completed(emails)(on_completed)
    registry = app._engine.registry
    assert [(handler.queue, handler.type, handler.is_batch) for handler in registry.handlers] == [
        ("emails", "welcome", False),
        ("parcels", None, True),
        ("emails.completed", BATCH_COMPLETED, False),
    ]
    assert registry.completions == {"emails": "emails.completed"}


def test_a_decorator_without_parentheses_is_refused(app: Tickwork) -> None:
    for decorator in (app.on, app.consumer, app.on_completed):
        with pytest.raises(
            InvalidInput, match=r"pass it in parentheses, as in @app.on\('emails'\)"
        ):
            decorator(handle)  # type: ignore[call-overload, arg-type]


def test_a_consumer_of_an_undeclared_queue_is_told_how_to_fix_it(app: Tickwork) -> None:
    app.on("emials")(handle)
    app.consumer("something-else")(handle_batch)
    with pytest.raises(InvalidInput) as refused:
        app._engine.registry.check()
    assert "consumes 'emials', which is not declared; did you mean 'emails'?" in faults(refused)
    assert "add app.queue('something-else') before it" in faults(refused)


def test_to_name_a_dead_letter_queue_is_to_declare_it(app: Tickwork) -> None:
    app.queue("orders", dead_letter_queue="orders-dlq")
    app.on("orders-dlq")(handle)
    app._engine.registry.check()
    implied = app._engine.registry.queues["orders-dlq"]
    assert (implied.settings, implied.is_implied, implied.is_shared) == (
        QueueSettings(),
        True,
        False,
    )


@pytest.mark.parametrize("is_first", [True, False])
def test_who_declares_a_dead_letter_queue_says_what_it_is(app: Tickwork, is_first: bool) -> None:
    if is_first:
        app.queue("graves", max_retries=0)
    app.queue("orders", dead_letter_queue="graves")
    if not is_first:
        app.queue("graves", max_retries=0)
    declared = app._engine.registry.queues["graves"]
    assert (declared.settings.max_retries, declared.is_implied) == (0, False)


def test_a_dead_letter_queue_of_a_shared_queue_is_shared(app: Tickwork) -> None:
    app.queue("orders", dead_letter_queue="graves")
    app.queue("of-all", dead_letter_queue="graves", shared=True)
    app.queue("others", dead_letter_queue="graves")
    assert app._engine.registry.queues["graves"].is_shared


def test_a_queue_may_be_declared_after_its_consumer(app: Tickwork) -> None:
    app.on("later")(handle)
    app.queue("later")
    app._engine.registry.check()


@pytest.mark.parametrize(
    ("first", "second"), [("batch", "batch"), ("batch", "on"), ("on", "batch")]
)
def test_a_queue_has_one_batch_consumer_or_handlers_by_type(
    app: Tickwork, first: str, second: str
) -> None:
    def declare(what: str) -> None:
        if what == "batch":
            app.consumer("emails")(handle_batch)
        else:
            app.on("emails", type="a")(handle)

    declare(first)
    with pytest.raises(InvalidInput, match=r"'emails' is already consumed by "):
        declare(second)


def test_a_type_has_one_handler(app: Tickwork) -> None:
    app.on("emails", type="a")(handle)
    app.on("emails", type="b")(handle)
    app.on("emails")(handle)
    with pytest.raises(InvalidInput, match=r"type 'a' is already handled by .*handle"):
        app.on("emails", type="a")(handle)
    with pytest.raises(InvalidInput, match="any type is already handled by"):
        app.on("emails")(handle)


@pytest.mark.parametrize(("first", "second"), [(1, 50), (1, None), (None, 1)])
def test_handlers_of_one_queue_share_one_concurrency(
    app: Tickwork, first: int | None, second: int | None
) -> None:
    """They share permits, so a limit of one handler could not be kept."""
    app.queue("other")
    app.on("emails", type="a", max_concurrency=first)(handle)
    app.on("other", type="a", max_concurrency=second)(handle)
    with pytest.raises(InvalidInput, match="all handlers of a queue share max_concurrency"):
        app.on("emails", type="b", max_concurrency=second)(handle)
    app.on("emails", type="b", max_concurrency=first)(handle)
    assert [consumer.max_concurrency for consumer in app._engine.registry.consumers()] == [
        first,
        second,
    ]


def test_limits_on_a_plain_function_that_stays_in_a_thread_are_refused(app: Tickwork) -> None:
    with pytest.raises(InvalidInput, match="cpu_seconds: works only with isolation='process'"):
        app.on("emails", cpu_seconds=1)(plainly)


def test_a_handler_runs_where_it_can(app: Tickwork) -> None:
    app.on("emails", type="a")(handle)
    app.on("emails", type="b")(plainly)
    found = {handler.type: handler.isolation for handler in app._engine.registry.handlers}
    assert found == {"a": Isolation.TASK, "b": Isolation.THREAD}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"isolation": "thread"}, "is a coroutine function"),
        ({"max_concurrency": 0}, "max_concurrency must be from 1"),
        ({"max_concurrency": CONCURRENCY_MAX + 1}, "max_concurrency must be from 1"),
        ({**IN_PROCESS, "cpu_seconds": 0}, "cpu_seconds must be above 0"),
        ({**IN_PROCESS, "memory_bytes": MEMORY_BYTES_MIN - 1}, "memory_bytes must be at least"),
        ({**IN_PROCESS, "memory_bytes": 2**63 - 1}, f"memory_bytes must be at most {2**50}"),
        ({"cpu_seconds": 1}, "cpu_seconds: works only with isolation='process'"),
        ({"isolation": "task", "memory_bytes": MEMORY_BYTES_MIN}, "memory_bytes: works only with"),
    ],
)
def test_options_that_cannot_be_are_named(
    app: Tickwork, options: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput) as refused:
        app.on("emails", **options)(handle)
    assert said in faults(refused)
    assert app._engine.registry.handlers == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"isolation": "tread"}, "isolation: must be one of task, thread, process"),
        ({"concurrency": 3}, "concurrency: is not a known field; did you mean 'max_concurrency'?"),
    ],
)
def test_unknown_options_are_named(app: Tickwork, options: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        app.on("emails", **options)(handle)
    assert said in faults(refused)


def test_a_plain_function_is_no_task(app: Tickwork) -> None:
    with pytest.raises(InvalidInput, match="is a plain function: use isolation='thread'"):
        app.on("emails", isolation="task")(plainly)


class Called:
    """Objects that can be called."""

    async def __call__(self, message: Message[Any]) -> None: ...

    async def several(self, message: Message[Any]) -> AsyncIterator[Any]:
        yield message.body


class CalledPlainly:
    """The same, without waiting."""

    def __call__(self, message: Message[Any]) -> None: ...


def generating(message: Message[Any]) -> Iterator[Any]:
    """No handler: to call it runs nothing."""
    yield message.body


@pytest.mark.parametrize("isolation", [{}, {"isolation": "thread"}, {"isolation": "process"}])
@pytest.mark.parametrize("function", [generating, partial(generating), Called().several])
def test_a_generator_is_no_handler(app: Tickwork, function: Any, isolation: Any) -> None:
    with pytest.raises(InvalidInput, match=r"is a generator function, .* remove the yield"):
        app.on("emails", **isolation)(function)
    with pytest.raises(InvalidInput, match="nightly: is a generator"):
        app.schedule(interval_minutes=5, name="nightly")(function)
    assert app._engine.registry.handlers == []
    assert app._engine.registry.schedules == {}


def test_an_object_that_is_awaited_is_declared_by_its_method(app: Tickwork) -> None:
    with pytest.raises(InvalidInput, match=r"Called: is an object .*handler.__call__"):
        app.on("emails")(Called())
    with pytest.raises(InvalidInput, match=r"nightly: is an object .*handler.__call__"):
        app.schedule(interval_minutes=5, name="nightly")(Called())  # type: ignore[type-var]
    app.on("emails", type="a")(Called().__call__)
    app.on("emails", type="b")(CalledPlainly())
    awaited, plain = app._engine.registry.handlers
    assert (awaited.isolation, plain.isolation) == (Isolation.TASK, Isolation.THREAD)
    assert plain.name == f"{__name__}.CalledPlainly"


def test_a_process_takes_no_batches(app: Tickwork) -> None:
    with pytest.raises(InvalidInput, match="a process handles one message at a time"):
        app.consumer("emails", isolation="process")(handle_batch)  # type: ignore[call-overload]


def test_a_consumer_of_batches_refuses_what_only_a_process_takes(app: Tickwork) -> None:
    wrong: Any = {"cpu_seconds": 3.0}
    with pytest.raises(InvalidInput, match="cpu_seconds: is not a known field") as refused:
        app.consumer("emails", **wrong)(handle_batch)
    assert "use isolation, max_concurrency" in str(refused.value)


def test_a_handler_without_annotation_is_given_what_its_queue_declares(app: Tickwork) -> None:
    async def typed(message: Message[str]) -> None: ...

    app.queue("numbers", payload=int)
    app.on("numbers", type="a")(handle)
    app.on("numbers", type="b")(typed)
    (consumer,) = app._engine.registry.consumers()
    declared = {type_: value.payload.declared for type_, value in consumer.by_type.items()}
    assert declared == {"a": int, "b": str}


def test_what_is_sent_fits_the_queue_and_the_handler_that_is_given_it(app: Tickwork) -> None:
    async def typed(message: Message[str]) -> None: ...

    app.queue("numbers", payload=int | str)
    app.on("numbers", type="a")(handle)
    app.on("numbers", type="b")(typed)
    for_any, for_texts = (app._engine.registry.payload_sent("numbers", name) for name in ("a", "b"))
    assert for_any is not None
    assert for_texts is not None
    assert (for_any.encode(7), for_texts.encode("7")) == (b"7", b'"7"')
    with pytest.raises(InvalidInput, match="body: does not fit str"):
        for_texts.encode(7)
    with pytest.raises(InvalidInput, match="body: does not fit int"):
        for_texts.encode(None)


def test_the_function_stays_what_it_was(app: Tickwork) -> None:
    assert app.on("emails")(handle) is handle
