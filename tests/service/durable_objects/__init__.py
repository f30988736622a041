"""Entities beside Durable Objects: the same scenarios on both, and where they differ, why.

| file | contents |
|---|---|
| scenarios.json | what is called and when; `on_alarm` is what the runs of the alarm do |
| worker.js, run.js | a Durable Object that does what a scenario says, in the Workers runtime |
| answers.json | the answers of the Workers runtime |
| peer.py | installs the runtime and runs the scenarios there |
| test_durable_objects.py | the same scenarios on our entities, compared with answers.json |

A scenario that differs on purpose names the reason in ADR 34 and has our answers beside it. `make
soak` runs the Workers runtime, and fails if answers.json is not what it answers.
`python -m tests.service.durable_objects.peer` writes answers.json.
"""
