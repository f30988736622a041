"""Collects all pages in `build/docs-source` and runs MkDocs on them.

The site loads nothing from other hosts. The script that draws its diagrams is a package of npm,
which is fetched once and kept in `build`. Where npm cannot be reached, diagrams are shown as text.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from docs.site.reference import reference_pages

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "build" / "docs-source"
SITE = ROOT / "build" / "site"
MERMAID = "mermaid@11.17.2"
MERMAID_SHA512 = (
    "57a2b70bc101744b0f1595d228c25eea9a50384371b87011afd1af1d7e21878e"
    "e501b84c443f6a7f8a042bb2e869143150b31af34feab798073bbdda0a578106"
)
SCRIPT = Path("javascripts") / "mermaid.min.js"
"""Where the script is in the site; `extra_javascript` in mkdocs.yml names it, too."""

UNPKG = re.compile(r"https://unpkg\.com/[^\"'`]*")
LOADED = re.compile(
    r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["']?((?:https?:)?//[^"' >]+)"""
)
STYLED = re.compile(r"""(?:@import|url\()[\s"']*((?:https?:)?//[^"') ]+)""")

TITLE = re.compile(r"^# (.+)$", re.MULTILINE)
FOLDERS = ("docs", "examples", "deploy")
IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc", "site", "*.db*")


def collect(target: Path = SOURCE) -> None:
    """Copies every page to the target, in the tree of the repository so that links stay valid, and
    writes the reference."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for page in [*ROOT.glob("*.md"), ROOT / "LICENSE"]:
        shutil.copy(page, target / page.name)
    for folder in FOLDERS:
        if (ROOT / folder).exists():
            shutil.copytree(ROOT / folder, target / folder, ignore=IGNORED)
    (target / "docs" / "adr" / "README.md").write_text(decisions(), encoding="utf-8")
    for page in target.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        text = text.replace("docs/adr)", "docs/adr/README.md)")
        page.write_text(text, encoding="utf-8")
    for name, text in reference_pages().items():
        path = target / "docs" / "reference" / f"{name}.md"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def mermaid_script() -> Path | None:
    """The script that draws diagrams, from the package that is pinned here; None without npm."""
    folder = ROOT / "build" / "mermaid"
    script = folder / "package" / "dist" / "mermaid.min.js"
    if script.exists():
        return script
    npm = shutil.which("npm")
    if npm is None:
        return None
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(
        [npm, "pack", "--silent", MERMAID], cwd=folder, stdout=subprocess.DEVNULL, check=False
    )
    packed = [*folder.glob("*.tgz")]
    if done.returncode or not packed:
        return None
    found = hashlib.sha512(packed[0].read_bytes()).hexdigest()
    if found != MERMAID_SHA512:
        sys.exit(f"{packed[0].name} is not the package that {Path(__file__).name} names: {found}")
    with tarfile.open(packed[0]) as archive:
        archive.extract("package/dist/mermaid.min.js", folder, filter="data")
    return script


def add_diagrams(target: Path, script: Path | None) -> None:
    """Puts the script into the site. Without it, diagrams become text."""
    (target / SCRIPT).parent.mkdir(parents=True, exist_ok=True)
    if script is not None:
        shutil.copy(script, target / SCRIPT)
        return
    sys.stderr.write("mermaid cannot be had from npm: diagrams are shown as text\n")
    (target / SCRIPT).write_text("")
    for page in target.rglob("*.md"):
        text = page.read_text(encoding="utf-8")
        page.write_text(text.replace("```mermaid\n", "```text\n"), encoding="utf-8")


def stay_here(site: Path) -> None:
    """Lets the theme load no script from another host: that for diagrams is in every page, and all
    of today's browsers have what the other one brings."""
    for bundle in (site / "assets" / "javascripts").glob("bundle.*.js"):
        text = bundle.read_text(encoding="utf-8")
        bundle.write_text(UNPKG.sub(f"/{SCRIPT}", text), encoding="utf-8")


def from_others(site: Path) -> list[str]:
    """The scripts, styles, fonts and pictures that pages of the site load from other hosts."""
    found: list[str] = []
    for kind, pattern in (("html", LOADED), ("css", STYLED), ("js", UNPKG)):
        for path in sorted(site.rglob(f"*.{kind}")):
            if path != site / SCRIPT:
                urls = pattern.findall(path.read_text(encoding="utf-8"))
                found += (f"{path.relative_to(site)}: {url}" for url in urls)
    return found


def decisions() -> str:
    """The page that lists all decisions."""
    lines = ["# Decisions", "", "Why things are as they are, one decision per page.", ""]
    for path in sorted((ROOT / "docs" / "adr").glob("0*.md")):
        title = TITLE.search(path.read_text(encoding="utf-8"))
        assert title is not None, path
        lines.append(f"- [{title[1]}]({path.name})")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Builds the site; returns the exit code of MkDocs."""
    collect()
    add_diagrams(SOURCE, mermaid_script())
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", "mkdocs.yml"]
    code = subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode
    if code:
        return code
    stay_here(SITE)
    others = from_others(SITE)
    sys.stderr.writelines(f"{other}\n" for other in others)
    return 1 if others else 0


if __name__ == "__main__":
    sys.exit(main())
