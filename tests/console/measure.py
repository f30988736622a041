"""How long a page takes, measured in the browser."""

from __future__ import annotations

from typing import Any, NamedTuple

from playwright.sync_api import Page

_GO = """async (to) => {
    performance.clearResourceTimings()
    performance.setResourceTimingBufferSize(1000)
    const moves = new URL(to, location.href).pathname !== location.pathname
    document.activeElement?.blur()
    const shown = new Promise((done) =>
        document.getElementById('main').addEventListener('focus', done, { once: true }))
    const began = performance.now()
    history.pushState(null, '', to)
    dispatchEvent(new PopStateEvent('popstate'))
    if (moves) await shown
    const frame = () => new Promise(requestAnimationFrame)
    await frame()
    while (document.querySelector('.loading') || !document.querySelector('h1')) await frame()
    await frame()
    const painted = performance.now()
    const asked = performance.getEntriesByType('resource')
        .filter((each) => each.name.includes('/v1/') && !each.name.endsWith('/v1/stream'))
    const last = Math.max(began, ...asked.map((each) => each.responseEnd))
    const slowest = asked.reduce((a, b) => (a && a.duration > b.duration ? a : b), undefined)
    return {
        seconds: (painted - began) / 1000,
        render_ms: painted - last,
        requests: asked.length,
        slowest: slowest ? new URL(slowest.name).pathname : '',
        slowest_ms: slowest?.duration ?? 0,
        kilobytes: asked.reduce((sum, each) => sum + each.encodedBodySize, 0) / 1000,
        rows: document.querySelectorAll('tbody tr').length,
    }
}"""


class Visit(NamedTuple):
    """What a page cost: until it was painted, after its last answer, its slowest request."""

    seconds: float
    render_ms: float
    requests: int
    slowest: str
    slowest_ms: float
    kilobytes: float
    rows: int


def visit(page: Page, path: str) -> Visit:
    """Goes to a page of the console as a link does, and measures it."""
    told: dict[str, Any] = page.evaluate(_GO, path)
    return Visit(**told)


def fastest(page: Page, path: str, *, elsewhere: str, rounds: int = 3) -> Visit:
    """The best of some visits: what the page costs when nothing else disturbs it."""
    visits = []
    for _ in range(rounds):
        visit(page, elsewhere)
        visits.append(visit(page, path))
    best = min(visits, key=lambda timed_visit: timed_visit.slowest_ms)
    return best._replace(render_ms=min(timed_visit.render_ms for timed_visit in visits))


class Load(NamedTuple):
    """What it costs to open a page with an empty cache, until its list is there."""

    seconds: float
    requests: int
    kilobytes: float


_LOADED = """() => {
    const all = [
        ...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource'),
    ]
    return {
        seconds: performance.now() / 1000,
        requests: all.length,
        kilobytes: all.reduce((sum, each) => sum + each.transferSize, 0) / 1000,
    }
}"""


def load(page: Page, address: str, rows: str) -> Load:
    """Opens a page, and waits for the rows of its list."""
    page.goto(address, wait_until="commit")
    page.wait_for_selector(rows)
    told: dict[str, Any] = page.evaluate(_LOADED)
    return Load(**told)
