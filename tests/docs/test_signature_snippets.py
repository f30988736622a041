"""The functions of the docs that check our signatures: they accept what we sign, and nothing
else. The one in JavaScript runs in the Node that builds the console. The one in Go is not compiled:
its parts are read, and put together they are our signature."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import runpy
import shutil
import subprocess
from base64 import b64decode, b64encode
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.docs.snippets import blocks
from tickwork.channel.ed25519 import new_private_key, public_key_of, signer
from tickwork.clock import now
from tickwork.core.delivery.signature import (
    TOLERANCE_SECONDS,
    new_secret,
    secret_key,
    signature_headers,
)

ROOT = Path(__file__).resolve().parents[2]
SECRET, OTHER = new_secret(b"s" * 32), new_secret(b"o" * 32)
PRIVATE, OTHER_PRIVATE = new_private_key(b"s" * 32), new_private_key(b"o" * 32)
BODY = '{"name": "Jürgen", "n": 1}'.encode()


def snippets(language: str, word: str) -> str:
    page = (ROOT / "docs" / "verify-webhooks.md").read_text(encoding="utf-8")
    return "\n".join(
        block.text for block in blocks(page) if block.language == language and word in block.text
    )


def cases(*keys: Any) -> list[tuple[dict[str, str], bytes, bool]]:
    """Headers, a body, and whether they are ours."""
    at = now()
    good = signature_headers(keys[:1], "msg_1", at, BODY)
    rotating = signature_headers(keys[::-1], "msg_1", at, BODY)
    late = signature_headers(keys[:1], "msg_1", at - timedelta(minutes=6), BODY)
    other = signature_headers(keys[1:], "msg_1", at, BODY)
    odd = ("", "v1", "v1,", "v1a,x", "v2,ä", good["webhook-signature"][:-4])
    return [
        (good, BODY, True),
        (rotating, BODY, True),
        (late, BODY, False),
        (other, BODY, False),
        (good, BODY + b" ", False),
        ({**good, "webhook-id": "msg_2"}, BODY, False),
        ({**good, "webhook-timestamp": "soon"}, BODY, False),
        *(({**good, "webhook-signature": signature}, BODY, False) for signature in odd),
        *(({name: good[name] for name in good if name != gone}, BODY, False) for gone in good),
        ({}, BODY, False),
    ]


def test_the_function_in_python_accepts_what_we_sign_and_nothing_else() -> None:
    namespace: dict[str, Any] = {}
    exec(snippets("python", "def is_ours("), namespace)  # noqa: S102
    for headers, body, is_ours in cases(secret_key(SECRET), secret_key(OTHER)):
        assert namespace["is_ours"](SECRET, headers, body) is is_ours, headers


def test_the_function_for_public_keys_accepts_what_we_sign_and_nothing_else() -> None:
    namespace: dict[str, Any] = {}
    exec(snippets("python", "def is_ours"), namespace)  # noqa: S102
    public = public_key_of(PRIVATE)
    for headers, body, is_ours in cases(signer(PRIVATE), signer(OTHER_PRIVATE)):
        assert namespace["is_ours_v1a"](public, headers, body) is is_ours, headers


def node() -> str:
    """The Node that builds the console; the one of a package if the machine has none."""
    build = runpy.run_path(str(ROOT / "console" / "build.py"))
    _, environment = build["find_npm"](build["NODE_MIN"])
    found = shutil.which("node", path=environment["PATH"])
    assert found is not None
    return found


def test_the_function_in_javascript_accepts_what_we_sign_and_nothing_else(tmp_path: Path) -> None:
    given = cases(secret_key(SECRET), secret_key(OTHER))
    plain = [[headers, b64encode(body).decode()] for headers, body, _ in given]
    program = tmp_path / "check.mjs"
    program.write_text(
        snippets("javascript", "isOurs")
        + f"const cases = {json.dumps(plain)};\n"
        + f"const check = ([h, b]) => isOurs({SECRET!r}, h, Buffer.from(b, 'base64'));\n"
        + "console.log(JSON.stringify(cases.map(check)));\n",
        encoding="utf-8",
    )
    done = subprocess.run([node(), program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [is_ours for _, _, is_ours in given]


GO = (
    r'sentAt := h\.Get\("(?P<timestamp>[\w-]+)"\)',
    r"seconds, err := strconv\.ParseInt\(sentAt, 10, 64\)",
    r"time\.Since\(time\.Unix\(seconds, 0\)\)\.Abs\(\) > (?P<minutes>\d+)\*time\.Minute",
    r'base64\.StdEncoding\.DecodeString\(strings\.TrimPrefix\(secret, "(?P<prefix>\w+)"\)\)',
    r"mac := hmac\.New\(sha256\.New, key\)",
    r'mac\.Write\(\[\]byte\(h\.Get\("(?P<id>[\w-]+)"\) \+ "(?P<a>.)" \+ sentAt \+ "(?P<b>.)"\)\)',
    r"mac\.Write\(body\)",
    r'wanted := "(?P<mark>[^"]+)" \+ base64\.StdEncoding\.EncodeToString\(mac\.Sum\(nil\)\)',
    r'range strings\.Fields\(h\.Get\("(?P<signature>[\w-]+)"\)\)',
    r"hmac\.Equal\(\[\]byte\(each\), \[\]byte\(wanted\)\) \{\s+return true",
)
"""The parts of the function in Go, in their order."""


def test_the_parts_of_the_function_in_go_make_our_signature() -> None:
    text, at, found = snippets("go", "IsOurs"), 0, dict[str, str]()
    for part in GO:
        match = re.compile(part).search(text, at)
        assert match is not None, part
        at = match.end()
        found |= match.groupdict()
    assert text.count("mac.Write(") == 2
    assert text.count("return true") == 1
    assert text[at:].split() == ["}", "}", "return", "false", "}"]

    ours = signature_headers([secret_key(SECRET)], "msg_1", now(), BODY)
    assert {*ours} == {found["timestamp"], found["id"], found["signature"]}
    assert int(found["minutes"]) * 60 == TOLERANCE_SECONDS
    key = b64decode(SECRET.removeprefix(found["prefix"]), validate=True)
    start = ours[found["id"]] + found["a"] + ours[found["timestamp"]] + found["b"]
    mac = hmac.new(key, start.encode() + BODY, hashlib.sha256).digest()
    assert found["mark"] + b64encode(mac).decode() == ours[found["signature"]]
