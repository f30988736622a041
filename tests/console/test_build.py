"""The build of the console: small, in the wheel, served with a strict policy, and locked without
addresses."""

from __future__ import annotations

import gzip
import json
import re
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

from tests.console.pictures import BYTES_MAX, PAGES, SCHEMES
from tests.kit.api import Client
from tickwork.api.routes import console

ROOT = Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs" / "pictures"
FIRST_LOAD_BYTES_MAX = 60_000
SCRIPTS_BYTES_MAX = 150_000


def built() -> list[Path]:
    assert (console.BUILD / "index.html").exists(), "the console is not built: run make console"
    return [path for path in console.BUILD.glob("**/*") if path.is_file()]


def gzipped(files: list[Path]) -> int:
    return sum(len(gzip.compress(file.read_bytes())) for file in files)


def test_the_first_load_and_all_scripts_are_small() -> None:
    files = built()
    index = console.BUILD / "index.html"
    named = re.findall(r'(?:src|href)="/console/([^"]+)"', index.read_text())
    first = [index, *(console.BUILD / name for name in named)]
    assert len(first) >= 3
    assert gzipped(first) <= FIRST_LOAD_BYTES_MAX
    assert gzipped([file for file in files if file.suffix == ".js"]) <= SCRIPTS_BYTES_MAX


def test_every_page_is_pictured_in_the_docs_in_light_and_dark_and_small() -> None:
    shown = (ROOT / "docs" / "console.md").read_text()
    wanted = {f"{page}-{scheme}.webp" for page in PAGES for scheme in SCHEMES}
    assert {path.name for path in PICTURES.iterdir()} == wanted
    for name in wanted:
        assert f"(pictures/{name})" in shown, name
        assert (PICTURES / name).stat().st_size <= BYTES_MAX, name
    first = re.search(r"!\[.*?\]\((.*?)\)", (ROOT / "README.md").read_text())
    assert first is not None
    assert first[1] == "docs/pictures/overview-light.webp"


def test_the_page_has_nothing_inline_and_nothing_from_elsewhere() -> None:
    page = (console.BUILD / "index.html").read_text()
    assert not re.search(r"<style|\son\w+=|style=|javascript:|data:", page)
    assert not re.search(r"<script(?![^>]*\ssrc=)", page)
    for path in built():
        text = path.read_text()
        assert not re.search(
            r"(?:src|href|url|import|from)\s*[=(]?\s*[\"']?(?:https?:)?//", text
        ), path


def test_the_wheel_contains_the_build(tmp_path: Path) -> None:
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {f"tickwork/api/console_build/{path.relative_to(console.BUILD)}" for path in built()}
    assert expected <= names
    assert not [name for name in names if "node_modules" in name or name.endswith(".tsx")]


def test_every_page_has_a_strict_policy(client: Client) -> None:
    for path in ("/", "/console", "/console/queues/a%2Fb?state=ready&cursor=x"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        assert "default-src 'self'" in answer.headers["content-security-policy"]
        assert "unsafe" not in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-cache"
    (script,) = re.findall(r'src="([^"]+)"', client.get("/").text)
    asset = client.get(script)
    assert asset.headers["content-type"].startswith("text/javascript")
    assert "immutable" in asset.headers["cache-control"]
    assert asset.headers["x-content-type-options"] == "nosniff"
    for wrong in ("/console/assets/nothing.js", "/console/assets/..%2Findex.html"):
        assert client.get(wrong).status_code == 404


def test_without_a_build_the_page_says_how_to_make_one(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "_build", dict)
    answer = client.get("/")
    assert "make console" in answer.text
    assert all(f'href="{path}"' in answer.text for path in ("/docs", "/openapi.json"))


def test_npm_packages_are_locked_by_hash_and_without_addresses() -> None:
    lock = json.loads((ROOT / "console" / "package-lock.json").read_text())
    packages = {name: value for name, value in lock["packages"].items() if name}
    assert packages
    for name, package in packages.items():
        assert package["integrity"].startswith("sha512-"), name
        assert "resolved" not in package, name


def test_every_page_in_the_navigation_has_a_picture() -> None:
    sources = ROOT / "console" / "src"
    places = re.findall(r"\['/(\w*)', '[A-Z]", (sources / "main.tsx").read_text())
    pictures = re.findall(r"^  (\w+): 'M", (sources / "icons.tsx").read_text(), re.MULTILINE)
    assert {place or "overview" for place in places} <= {*pictures}
    assert len(places) > 15
