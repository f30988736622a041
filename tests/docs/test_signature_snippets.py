"""The functions of the docs that check our signatures: they accept what we sign, and nothing
else. The one in JavaScript runs where Node is installed; the one in Go is only read."""

from __future__ import annotations

import json
import shutil
import subprocess
from base64 import b64encode
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.docs.snippets import blocks
from tickwork.channel.ed25519 import new_private_key, public_key_of, signer
from tickwork.clock import now
from tickwork.core.delivery.signature import new_secret, secret_key, signature_headers

NODES = [found for found in [shutil.which("node")] if found]
ROOT = Path(__file__).resolve().parents[2]
SECRET, OTHER = new_secret(b"s" * 32), new_secret(b"o" * 32)
PRIVATE, OTHER_PRIVATE = new_private_key(b"s" * 32), new_private_key(b"o" * 32)
BODY = '{"name": "Jürgen", "n": 1}'.encode()


def snippets(language: str, word: str) -> str:
    page = (ROOT / "docs" / "verify-webhooks.md").read_text(encoding="utf-8")
    return "\n".join(
        each.text for each in blocks(page) if each.language == language and word in each.text
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
        *(({**good, "webhook-signature": each}, BODY, False) for each in odd),
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


@pytest.mark.parametrize("node", NODES)
def test_the_function_in_javascript_accepts_what_we_sign_and_nothing_else(
    tmp_path: Path, node: str
) -> None:
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
    done = subprocess.run([node, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [is_ours for _, _, is_ours in given]
