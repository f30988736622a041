"""One of two versions of an app, run as a worker until it is killed.

    python -m tests.faults.programs.deploys URL CODE VERSION

CODE is the name of the step that takes the money, by which the two versions differ. VERSION is
declared unless it is `-`. Each step sends what it did to the queue `effects`, which commits with
its record.
"""

import sys

from tests.faults.programs.exactly_once import blame_nobody, find_the_dead_soon
from tickwork.facade.app import Tickwork
from tickwork.workflow.step import Step

PROGRAM = "tests.faults.programs.deploys"
WORKFLOW = "orders"
EFFECTS = "effects"
NO_VERSION = "-"


def build(url: str, code: str, version: str) -> Tickwork:
    app = Tickwork(url)
    effects = app.queue(EFFECTS)

    async def work(run: str, what: str) -> str:
        await effects.send({"run": run, "what": what})
        return what

    async def orders(step: Step) -> str:
        run = step.run_id
        paid = await step.do(code, work, run, "paid")
        await step.sleep("rest", 0.2)
        await step.gather(*(step.do(name, work, run, name) for name in ("packed", "billed")))
        await step.sleep("cool down", 0.2)
        await step.do("ship", work, run, "shipped")
        return paid

    app.workflow(name=WORKFLOW, version=None if version == NO_VERSION else version)(orders)
    return app


def main(url: str, code: str, version: str) -> None:
    find_the_dead_soon()
    blame_nobody()
    build(url, code, version).run(drain_seconds=0)


if __name__ == "__main__":
    main(*sys.argv[1:])
