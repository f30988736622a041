"""Turns the facts about a run into a code and sentences: what it waits for, and what comes next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from tickwork.core.answers.ids import Prefix, public_id
from tickwork.core.answers.wait import Wait
from tickwork.core.model import State, StoredNode
from tickwork.core.near_names import nearest
from tickwork.core.workflow.model import (
    Control,
    Run,
    RunEvent,
    RunPage,
    RunStatus,
    RunStep,
    StepKind,
    StepState,
)
from tickwork.ops.message_facts import MessageFacts
from tickwork.ops.schedules.why_answers import iso_second
from tickwork.ops.wait_answers import message_wait, obstacles_text, sentence, short_error

NODES_SHOWN_MAX = 5
"""Maximum number of nodes that an answer names."""


class RunFacts(Struct, frozen=True, kw_only=True):
    """Everything known about a run: its page, the facts of its message if it has one, the live
    nodes that declare its workflow, and whether its version is pinned."""

    page: RunPage
    message: MessageFacts | None
    nodes: Sequence[StoredNode] = ()
    is_pinned: bool = False

    @property
    def is_due(self) -> bool:
        """Whether a worker could execute it now."""
        return self.message is not None and self.message.message.visible_at <= self.page.now

    def without_version(self) -> bool:
        """Whether no live node declares the version of the run."""
        run = self.page.run
        if run.version is None:
            return False
        return all((run.workflow, run.version) not in node.workflows for node in self.nodes)


def nodes_with(workflow: str, nodes: Sequence[StoredNode], now: datetime) -> list[StoredNode]:
    """The live nodes that declare a workflow."""
    return [
        node
        for node in nodes
        if node.expires_at > now and any(name == workflow for name, _ in node.workflows)
    ]


class _Answer(Struct, frozen=True, kw_only=True):
    """The parts of an answer that depend on what a run waits for."""

    code: str
    answer: str
    next: str
    since: datetime
    until: datetime | None = None
    more: tuple[str, ...] = ()


def run_wait(facts: RunFacts) -> Wait:
    """Why a run waits, or what became of it."""
    page = facts.page
    run, answer = page.run, _answer(facts)
    details = [_step_words(step) for step in page.open_steps]
    if run.deadline_at is not None and not run.status.is_final:
        details.append(f"its deadline is {iso_second(run.deadline_at)}")
    if run.divergence is not None and not run.is_diverged:
        details.append(f"somebody accepted that its code differed: {run.divergence}")
    if not run.status.is_final:
        details += _unread_events(page)
    return Wait(
        kind="run",
        id=run.id,
        code=answer.code,
        answer=sentence(answer.answer),
        next=sentence(answer.next),
        since=answer.since,
        until=answer.until,
        correlation_id=run.correlation_id or public_id(Prefix.MESSAGE, run.message_id),
        details=(*details, *answer.more),
    )


def _answer(facts: RunFacts) -> _Answer:
    page = facts.page
    run, steps = page.run, page.open_steps
    message = facts.message
    name = f"run {run.id} of {run.workflow}"
    since = max((step.started_at for step in steps), default=run.created_at)
    is_running = message is not None and message.message.state is State.CLAIMED
    if run.status is not RunStatus.RUNNING:
        error = f" ({short_error(run.error)})" if run.error else ""
        return _Answer(
            code=str(run.status),
            answer=f"{name} has ended: {run.status}{error}",
            next="nothing: restart it to run it again",
            since=run.finished_at or since,
        )
    if is_running and message is not None:
        return _running(name, run, message)
    if run.paused:
        then = "it goes on when it is resumed"
        return _Answer(code="paused", answer=f"{name} is paused", next=then, since=since)
    if facts.is_due and facts.without_version():
        return _without_version(name, facts, since)
    if run.is_diverged:
        return _diverged(name, facts)
    if run.control is not None:
        answer = f"{name} is to end ({_control_words(run.control)})"
        then = "a worker ends it as soon as one is free"
        return _Answer(code="cancelling", answer=answer, next=then, since=since)
    if steps and not facts.is_due:
        return _waiting(name, run, steps, since)
    return _ready(name, facts, since)


def _running(name: str, run: Run, facts: MessageFacts) -> _Answer:
    message = message_wait(facts)
    where = "" if facts.holder is None else f" on {facts.holder}"
    code, answer = message.code, f"{name} is running{where}"
    then = "its next step starts when the running one ends"
    if run.paused:
        code, answer = "pausing", f"{name} is pausing: a step still runs{where}"
        then = "it is paused when the running step ends"
    elif run.control is not None:
        code = "cancelling"
        answer = f"{name} is to end ({_control_words(run.control)}): a step still runs{where}"
        then = "it ends when the running step has ended"
    if message.code == "lost":
        then = "another worker resumes it from its recorded steps"
    return _Answer(code=code, answer=answer, next=then, since=message.since or facts.now)


def _diverged(name: str, facts: RunFacts) -> _Answer:
    run = facts.page.run
    options = "accept it, restart it, cancel it with its compensations, or terminate it"
    return _Answer(
        code="diverged",
        answer=f"{name} has diverged: {run.divergence}",
        next=f"it goes on when a node has code that agrees with its record; or {options}",
        since=run.diverged_at or run.created_at,
        more=_version_words(facts),
    )


def _without_version(name: str, facts: RunFacts, since: datetime) -> _Answer:
    run = facts.page.run
    others = "code of another version takes it after version_grace_seconds, unless that is pinned"
    if facts.is_pinned:
        others = "other code does not take it: its version is pinned (pin=True)"
    return _Answer(
        code="no_version",
        answer=f"{name} waits for a node that declares version {run.version}",
        next=f"it goes on there; {others}",
        since=since,
        more=(_who_has_versions(facts),),
    )


def _version_words(facts: RunFacts) -> tuple[str, ...]:
    """Which version a run needs, and who has it; nothing for a run without one."""
    version = facts.page.run.version
    return () if version is None else (f"it needs version {version}: {_who_has_versions(facts)}",)


def _who_has_versions(facts: RunFacts) -> str:
    name = facts.page.run.workflow
    found = [
        f"node {node.name} has " + ("none" if version is None else f"version {version}")
        for node in facts.nodes
        for workflow, version in node.workflows
        if workflow == name
    ]
    return "; ".join(found[:NODES_SHOWN_MAX]) or f"no live node declares {name}"


def _waiting(name: str, run: Run, steps: Sequence[RunStep], since: datetime) -> _Answer:
    wakes = [step.wake_at for step in steps if step.wake_at is not None]
    if run.deadline_at is not None:
        wakes.append(run.deadline_at)
    return _Answer(
        code=_run_code(steps),
        answer=f"{name} waits for {', '.join(map(_short_step, steps))}",
        next=_run_next(steps),
        since=since,
        until=min(wakes, default=None),
    )


def _ready(name: str, facts: RunFacts, since: datetime) -> _Answer:
    message = facts.message
    obstacles = obstacles_text(() if message is None else message.obstacles)
    workflow = facts.page.run.workflow
    if not facts.nodes:
        return _Answer(
            code="no_workflow",
            answer=f"{name} is ready, and no live node declares the workflow {workflow}",
            next="it goes on when an app that declares it runs: tickwork run your.module:app",
            since=since,
        )
    if message is None or facts.is_due:
        return _Answer(
            code="ready",
            answer=f"{name} is ready and waits for a worker",
            next=f"a worker resumes it as soon as one is free{obstacles}",
            since=since,
            more=_version_words(facts),
        )
    until, error = message.message.visible_at, message.message.last_error
    return _Answer(
        code="delayed",
        answer=f"{name} could not go on and waits for its next attempt",
        next=f"a worker looks at it again at {iso_second(until)}{obstacles}",
        since=since,
        until=until,
        more=() if not error else (f"the last error: {short_error(error)}",),
    )


def _control_words(control: Control) -> str:
    return {
        Control.CANCEL: "it was cancelled",
        Control.COMPENSATE: "it was cancelled with its compensations",
        Control.FAIL: "its workers died too often",
    }[control]


def _short_step(step: RunStep) -> str:
    if step.kind is StepKind.EVENT and step.called is not None:
        return f"event {step.called!r} (step {step.key})"
    return step.key


def _step_words(step: RunStep) -> str:
    until = "" if step.wake_at is None else f" until {iso_second(step.wake_at)}"
    since = f"since {iso_second(step.started_at)}"
    if step.state is StepState.RETRYING:
        return f"step {step.key}: attempt {step.attempts + 1} {since}{until}"
    if step.kind is StepKind.SLEEP:
        return f"step {step.key}: sleeps {since}{until}"
    if step.kind is StepKind.EVENT:
        event = "an event" if step.called is None else f"event {step.called!r}"
        return f"step {step.key}: waits for {event} {since}{until}"
    return f"step {step.key}: has started {since}"


def _unread_events(page: RunPage) -> list[str]:
    """Events that no step has received, and the type that was probably meant."""
    awaited = [
        step.called
        for step in page.open_steps
        if step.kind is StepKind.EVENT and step.called is not None
    ]
    unread = Counter(event.type for event in page.events if _is_unread(event))
    return [_unread_words(type_, count, awaited) for type_, count in unread.items()]


def _is_unread(event: RunEvent) -> bool:
    return event.consumed_by is None


def _unread_words(type_: str, count: int, awaited: Sequence[str]) -> str:
    times = {1: "once", 2: "twice"}.get(count, f"{count} times")
    words = f"event {type_!r} was sent {times}, and no step has received it"
    near = None if type_ in awaited else nearest(type_, awaited)
    return words if near is None else f"{words}; it waits for {near!r}"


def _run_code(steps: Sequence[RunStep]) -> str:
    kinds = {
        "event": any(step.kind is StepKind.EVENT for step in steps),
        "retrying": any(step.state is StepState.RETRYING for step in steps),
        "sleeping": any(step.kind is StepKind.SLEEP for step in steps),
    }
    return next((code for code, holds in kinds.items() if holds), "steps")


def _run_next(steps: Sequence[RunStep]) -> str:
    for step in steps:
        until = "" if step.wake_at is None else f" at {iso_second(step.wake_at)}"
        if step.kind is StepKind.EVENT:
            event = "the event" if step.called is None else f"event {step.called!r}"
            late = f", or the step times out{until}" if until else ""
            return f"it goes on when {event} is sent{late}"
        if step.state is StepState.RETRYING:
            return f"the step is attempted again{until}"
        if step.kind is StepKind.SLEEP:
            return f"it wakes{until}"
    return "it goes on when its steps have ended"
