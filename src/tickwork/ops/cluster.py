"""Describes the cluster: its nodes, and which node leads which shards of schedules."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from tickwork.core.answers.cluster import ClusterView, Node
from tickwork.core.limits import LIST_LIMIT_MAX
from tickwork.core.model import DEFAULT, SYSTEM
from tickwork.core.schedule.shards import check_shard_count
from tickwork.core.schedule.widen import read_widen
from tickwork.extras import INSTALL_DELIVERY, NO_DELIVERY, has_delivery_extra
from tickwork.ops.audit import recorded
from tickwork.ops.context import Context
from tickwork.ops.schedules.outside import has_deliveries
from tickwork.store.contract import Store
from tickwork.store.shared.doctor import Finding, Level

NEEDED_ROLES = {
    "scheduler": "schedules do not fire",
    "worker": "messages are not handled, and nothing is delivered",
}
"""What does not happen without a process with a role."""

LED_SECONDS_MAX = 60.0
"""Seconds that `reshard` waits until schedulers lead all shards."""

LED_CHECK_SECONDS = 0.25
"""Seconds between two looks at the leaders."""


async def list_nodes(store: Store) -> tuple[Node, ...]:
    """Returns the nodes whose lease has not been ended, with the shards each one leads."""
    return (await describe_cluster(store)).nodes


async def describe_cluster(store: Store) -> ClusterView:
    """Returns the nodes, the shards without a leader and the database's time and schema."""
    now, meta = await store.now(), await store.meta()
    nodes, holdings = await store.nodes.list(SYSTEM), await store.shards.list(SYSTEM)
    claims = await store.nodes.claims(SYSTEM)
    led = {
        node.id: tuple(holding.shard for holding in holdings if holding.node == node.id)
        for node in nodes
    }
    return ClusterView(
        now=now,
        schema_version=meta.schema_version,
        epoch=meta.epoch,
        nodes=tuple(
            Node(
                id=str(node.id),
                name=node.name,
                roles=node.roles,
                started_at=node.started_at,
                expires_at=node.expires_at,
                is_alive=node.expires_at > now,
                shards=led[node.id],
                claims=claims.get(node.id, 0),
                host=_host_and_pid(node.name)[0],
                pid=_host_and_pid(node.name)[1],
            )
            for node in nodes
        ),
        shards_without_leader=tuple(holding.shard for holding in holdings if holding.node is None),
        paused_at=await store.nodes.paused_at(SYSTEM),
        widened_seconds=await store.nodes.widened_seconds(SYSTEM),
    )


async def pause_all(store: Store) -> datetime | None:
    """Pauses everything: no message of any tenant is claimed, those of due slots among them, until
    `resume_all`. What runs finishes. Returns since when."""
    return await _set_pause(store, "cluster.pause", is_paused=True)


async def resume_all(store: Store) -> None:
    """Ends the pause of everything."""
    await _set_pause(store, "cluster.resume", is_paused=False)


async def _set_pause(store: Store, action: str, *, is_paused: bool) -> datetime | None:
    before = await store.nodes.paused_at(SYSTEM)
    async with recorded(
        Context(store, DEFAULT),
        action,
        "cluster",
        before={"paused_at": before},
        after={"paused": is_paused},
    ):
        return await store.nodes.pause_all(SYSTEM, is_paused=is_paused)


async def widen_windows(store: Store, fields: Mapping[str, object]) -> None:
    """Spreads the firings of all schedules that are not exact over at least `seconds`, from the
    next slots to be planned on; 0 ends it. Raises `InvalidInput`."""
    wanted = read_widen(fields)
    before = {"widened_seconds": await store.nodes.widened_seconds(SYSTEM)}
    after = {"widened_seconds": wanted}
    async with recorded(
        Context(store, DEFAULT), "cluster.widen", "cluster", before=before, after=after
    ):
        await store.nodes.widen(SYSTEM, wanted)


async def roles_without_process(store: Store) -> tuple[str, ...]:
    """The roles that no live process has, of those without which nothing fires or is handled."""
    now, nodes = await store.now(), await store.nodes.list(SYSTEM)
    alive = {role for node in nodes if node.expires_at > now for role in node.roles}
    return tuple(role for role in NEEDED_ROLES if role not in alive)


async def examine_processes(store: Store) -> tuple[Finding, ...]:
    """What `tickwork doctor` says about the processes, the keys of the API and deliveries."""
    missing, nodes = await roles_without_process(store), await store.nodes.list(SYSTEM)
    if not nodes:
        processes = Finding("processes", Level.OK, "no process runs on this database now")
    elif missing:
        says = f"no process has the role {' or '.join(missing)}: {_without(missing)}"
        advice = f"start one: tickwork run your.module:app --roles {','.join(missing)}"
        processes = Finding("processes", Level.WARNING, says, advice)
    else:
        processes = Finding("processes", Level.OK, f"{len(nodes)} with all roles between them")
    if (since := await store.nodes.paused_at(SYSTEM)) is not None:
        says = f"everything is paused since {since:%Y-%m-%dT%H:%M:%SZ}: no message is handled"
        processes = Finding("processes", Level.WARNING, says, "go on: tickwork cluster resume")
    keys = await store.keys.list(SYSTEM, LIST_LIMIT_MAX)
    live = [key for key in keys if key.revoked_at is None]
    says = f"{len(live)} can be used; the API refuses requests without one"
    if not live:
        says = "there is none; the first start of tickwork up makes one and prints it"
    findings = [processes, Finding("API keys", Level.OK, says)]
    if seconds := await store.nodes.widened_seconds(SYSTEM):
        says = f"they are widened: slots come up to {seconds} s late"
        advice = "end it: tickwork cluster narrow"
        findings.append(Finding("fire windows", Level.WARNING, says, advice))
    if not has_delivery_extra() and await has_deliveries(store):
        advice = f"if workers are installed as this is: {INSTALL_DELIVERY}"
        findings.append(Finding("deliveries", Level.WARNING, NO_DELIVERY, advice))
    if differing := await store.types.differing(SYSTEM, TYPES_SHOWN_MAX):
        named = "; ".join(f"{one.type} in {one.queue}: {one.apps}" for one in differing)
        says = f"apps declare one type differently, and a body has to fit one of them: {named}"
        advice = "see how they differ: tickwork types show TYPE"
        findings.append(Finding("types", Level.WARNING, says, advice))
    return tuple(findings)


TYPES_SHOWN_MAX = 5
"""Maximum number of types that `tickwork doctor` names."""


def _without(missing: Sequence[str]) -> str:
    return "; ".join(NEEDED_ROLES[role] for role in missing)


class Resharded(Struct, frozen=True):
    """The number of shards before and now, and how many of them have a leader. `schedulers` is the
    number of processes that may lead."""

    before: int
    shards: int
    led: int
    schedulers: int


def _no_progress(_progress: Resharded) -> None:
    """Nobody watches."""


async def reshard(
    store: Store,
    count: int,
    *,
    progress: Callable[[Resharded], None] = _no_progress,
    wait_seconds: float = LED_SECONDS_MAX,
) -> Resharded:
    """Divides all schedules into another number of shards, while schedulers run, and waits until
    they lead all of them. No slot is lost or fires twice: the leaders of the old shards cannot
    plan any more, and the new shards start where the schedules are.

    Raises `InvalidInput`, `Conflict`.
    """
    before = len(await store.shards.list(SYSTEM))
    if check_shard_count(count) != before:
        was, becomes = {"shards": before}, {"shards": count}
        async with recorded(
            Context(store, DEFAULT), "cluster.reshard", "cluster", before=was, after=becomes
        ):
            await store.shards.replace(SYSTEM, count)
    progress(state := await _resharded(store, before))
    for _ in range(int(wait_seconds / LED_CHECK_SECONDS)):
        if state.led == count or not state.schedulers:
            break
        await asyncio.sleep(LED_CHECK_SECONDS)
        progress(state := await _resharded(store, before))
    await store.shards.drop_old_indexes(SYSTEM)
    return state


async def _resharded(store: Store, before: int) -> Resharded:
    now, shards = await store.now(), await store.shards.list(SYSTEM)
    nodes = await store.nodes.list(SYSTEM)
    return Resharded(
        before=before,
        shards=len(shards),
        led=sum(shard.node is not None for shard in shards),
        schedulers=sum("scheduler" in node.roles and node.expires_at > now for node in nodes),
    )


def _host_and_pid(name: str) -> tuple[str, int | None]:
    """Splits the name of a node, `host:pid`; a name of another form is a host."""
    host, found, pid = name.rpartition(":")
    return (host, int(pid)) if found and pid.isdecimal() else (name, None)
