"""The files in deploy/ name metrics, settings and commands that exist."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner

from docs.site.reference import metrics
from tickwork.cli import app
from tickwork.settings import VARIABLES, Settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
MONITORING = (ROOT / "docs" / "monitoring.md").read_text(encoding="utf-8")


def exposed_names() -> set[str]:
    """The names of all time series, as Prometheus stores them."""
    names = {"process_resident_memory_bytes"}
    for name, kind, _ in metrics():
        parts = ("_bucket", "_sum", "_count") if kind == "histogram" else ("",)
        names |= {name + part for part in parts}
    return names


def rules() -> list[dict[str, object]]:
    (group,) = yaml.safe_load((DEPLOY / "prometheus-rules.yml").read_text())["groups"]
    found: list[dict[str, object]] = group["rules"]
    return found


def expressions() -> Iterator[str]:
    yield from (str(rule["expr"]) for rule in rules())
    for panel in json.loads((DEPLOY / "grafana-dashboard.json").read_text())["panels"]:
        yield from (target["expr"] for target in panel["targets"])


@pytest.mark.parametrize("expression", [*expressions()])
def test_every_metric_of_rules_and_dashboard_exists(expression: str) -> None:
    named = set(re.findall(r"\b(?:tickwork|process)_\w+", expression))
    assert named
    assert named <= exposed_names()
    assert expression.count("(") == expression.count(")")


def test_every_alert_is_explained() -> None:
    names = [str(rule["alert"]) for rule in rules()]
    assert [name for name in names if f"`{name}`" not in MONITORING] == []
    assert {*re.findall(r"`(Tickwork\w+)`", MONITORING)} == {*names}


def test_the_alerts_name_commands_that_exist() -> None:
    for rule in rules():
        annotations = rule["annotations"]
        assert isinstance(annotations, dict)
        words = annotations["command"].split()
        if words[0] == "tickwork":
            group = [word for word in words[1:3] if re.fullmatch(r"[a-z]+", word)]
            assert CliRunner().invoke(app, [*group, "--help"]).exit_code == 0, words


def commands() -> Iterator[list[str]]:
    """The command of the unit and of the image, without the path of the program."""
    (start,) = re.findall(r"\nExecStart=(.+)\n", (DEPLOY / "tickwork.service").read_text())
    yield shlex.split(start)
    (cmd,) = re.findall(r"^CMD (.+)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    yield json.loads(cmd)


@pytest.mark.parametrize("words", [*commands()], ids=["unit", "image"])
def test_unit_and_image_start_a_command_that_exists(words: list[str]) -> None:
    assert Path(words[0]).name == "tickwork"
    result = CliRunner().invoke(app, words[1:])
    assert "there is no module shop" in result.stderr  # All options are known.


@pytest.mark.parametrize("name", ["tickwork.service", "Dockerfile"])
def test_unit_and_image_name_settings_that_exist(name: str) -> None:
    known = {f"{VARIABLES}{field.upper()}" for field in Settings.__struct_fields__}
    assert {*re.findall(r"TICKWORK_\w+", (DEPLOY / name).read_text())} <= known


def test_the_unit_waits_longer_than_the_drain() -> None:
    (stop,) = re.findall(r"\nTimeoutStopSec=(\d+)\n", (DEPLOY / "tickwork.service").read_text())
    assert int(stop) >= Settings().drain_seconds + 20
