"""`tickwork config show`: where each setting comes from, and that misspelled names are reported."""

from __future__ import annotations

import contextlib
import json
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tickwork.cli import app
from tickwork.settings import Settings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.delenv("TICKWORK_DATABASE", raising=False)
    with contextlib.chdir(tmp_path):
        yield tmp_path


def show(*words: str) -> Result:
    return CliRunner().invoke(app, ["config", "show", *words])


def settings(*words: str) -> dict[str, Any]:
    result = show(*words, "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    return {load["setting"]: (load["value"], load["from"]) for load in json.loads(result.stdout)}


def test_every_setting_is_shown_with_its_default() -> None:
    found = settings()
    assert found.keys() == set(Settings.__struct_fields__)
    assert {origin for _, origin in found.values()} == {"default"}
    assert found["port"] == (8080, "default")


def test_a_flag_wins_over_the_environment_and_that_over_the_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "tickwork.toml").write_text(
        '# port\n[[queues]]\nname = "a"\n\n[server]\nport = 1\nhost = "::1"\nlog_level = "error"\n'
    )
    monkeypatch.setenv("TICKWORK_PORT", "2")
    monkeypatch.setenv("TICKWORK_HOST", "::2")
    found = settings("--port", "3")
    assert found["port"] == (3, "--port")
    assert found["host"] == ("::2", "TICKWORK_HOST")
    assert found["log_level"] == ("error", "tickwork.toml, line 8")


def test_what_an_app_was_given_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from tickwork import Tickwork\napp = Tickwork('sqlite:///own.db')\n"
    (folder / "configured.py").write_text(source)
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    found = settings("--app", "configured:app")
    assert found["database"] == (f"sqlite:///{folder}/own.db", "configured:app")
    sys.modules.pop("configured")


def test_secrets_are_not_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = "canary-of-a-secret"  # noqa: S105
    key = b64encode(secret.ljust(32).encode()).decode()
    monkeypatch.setenv("TICKWORK_SECRET_KEY", key)
    monkeypatch.setenv("TICKWORK_EMAIL_KEY", secret)
    monkeypatch.setenv("TICKWORK_SMTP_URL", f"smtp://user:{secret}@host:587")
    (folder / "tickwork.toml").write_text(
        f'[server]\ndatabase_direct = "postgresql://user:{secret}@host/name"\n'
        f'[[jwt]]\nissuer = "us"\naudience = "api"\nalgorithm = "HS256"\ntenants = ["default"]\n'
        f'secret = "{secret * 2}"\n'
    )
    for words in ([], ["--json"], ["--database", f"postgresql://user:{secret}@host/name"]):
        result = show(*words)
        assert result.exit_code == 0, result.stderr
        assert secret not in result.stdout + result.stderr
        assert key not in result.stdout + result.stderr
    assert settings()["smtp_url"] == ("(hidden)", "TICKWORK_SMTP_URL")
    assert settings()["jwt"] == (["us"], "tickwork.toml, [[jwt]]")


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("[server]\nprot = 1\n", "'port'"),
        ("[sever]\nport = 1\n", "'server'"),
        ("[[jwt]]\nisuer = 'us'\n", "'issuer'"),
        ("[[queues]]\nname = 'a'\nmax_retires = 1\n", "'max_retries'"),
        ("[[queues]]\nname = 'a'\n[[subscriptions]]\ntype = 'a'\nqueue = 'a'\n", "'types'"),
        ("[[queues]]\nname = 'a'\n[[consumers]]\nqueue = 'a'\nmax_concurency = 1\n", "currency'"),
        ("[[queues]]\nname = 'a'\n[[producers]]\nquee = 'a'\n", "'queue'"),
        ("[[services]]\nname = 'a'\nulr = 'http://a'\n", "'url'"),
    ],
)
def test_a_misspelled_key_is_an_error_with_the_nearest_name(
    folder: Path, text: str, nearest: str
) -> None:
    (folder / "tickwork.toml").write_text(text)
    result = show()
    assert (result.exit_code, result.stdout) == (2, "")
    assert f"{nearest}?" in result.stderr


def test_a_misspelled_variable_is_a_warning_and_a_foreign_one_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TICKWORK_PROT", "1")
    for foreign in ("TICKWORK_XYZZY", "TICKWORK_TEST_REPORT", "TICKWORK_TEST_PROCESS"):
        monkeypatch.setenv(foreign, "1")
    result = show()
    assert result.exit_code == 0
    told = "tickwork: warning: TICKWORK_PROT is not a known environment variable; did you mean"
    assert result.stderr == f"{told} TICKWORK_PORT?\n"
    # `run` says it before it finds that there is no such app.
    assert CliRunner().invoke(app, ["run", "nowhere:app"]).stderr.startswith(told)
