"""Ask a Git server which commit a branch or tag is, by one bounded request. Addresses are checked as for webhooks.

Nothing is cloned here and no program runs. Source: Git's Documentation/gitprotocol-http.txt, "Smart Clients".
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from common.safe_http import Reply, Unreached, authorize_basic, send_request
from jobs.code.git_code import USUAL_USER, GitCode

MOST_BYTES = 16 << 20
"""Of the list of refs: some 200,000 of them."""
WITHIN_S = 10.0
SERVICE = "git-upload-pack"
_REF = re.compile(rb"([0-9a-f]{40}) ([^\0\n]+)")


@dataclass(frozen=True)
class Reach:
    """Network settings. allowed: networks besides the internet. authority: a file of further CA certificates."""

    allowed: Sequence[str] = ()
    authority: str = ""


class Unresolved(Exception):
    """No commit found. why: unknown_ref, denied, refused, too_many_refs, or a reason of safe_http. status: HTTP's."""

    def __init__(self, why: str, status: int = 0):
        super().__init__(why)
        self.why, self.status = why, status


def find_commit(code: GitCode, token: str, reach: Reach) -> str:
    """Return the commit that the code's ref is now. token: "" without one; a user may stand before it. Raises
    Unresolved.
    """
    url = f"{code.url.rstrip('/')}/info/refs?service={SERVICE}"
    headers = {"User-Agent": "git/2.39", **(_authorize(token) if token and code.keeps_secrets else {})}
    try:
        reply = send_request(
            "GET", url, headers, reach.allowed, most=MOST_BYTES + 1, authority=reach.authority, within_s=WITHIN_S
        )
    except Unreached as unreached:
        raise Unresolved(unreached.why) from None
    return choose_commit(read_refs(reply), code.ref)


def choose_commit(refs: dict[str, str], ref: str) -> str:
    """Return the commit of a ref by its full or short name: a branch goes before a tag of its name.

    Of an annotated tag, it is the commit and not the tag. Raises Unresolved.
    """
    names = [ref] if ref == "HEAD" or ref.startswith("refs/") else [f"refs/heads/{ref}", f"refs/tags/{ref}"]
    found = next((refs.get(f"{name}^{{}}", refs[name]) for name in names if name in refs), None)
    if found is None:
        raise Unresolved("unknown_ref")
    return found


def read_refs(reply: Reply) -> dict[str, str]:
    """Read {ref: object id} of a server's answer. Raises Unresolved."""
    if reply.status in (401, 403, 404):
        raise Unresolved("denied", reply.status)
    if reply.status != 200 or reply.headers.get("content-type") != f"application/x-{SERVICE}-advertisement":
        raise Unresolved("refused", reply.status)
    if len(reply.body) > MOST_BYTES:
        raise Unresolved("too_many_refs")
    refs = {}
    for line in _split_lines(reply.body):
        if found := _REF.match(line):
            refs[found[2].decode(errors="replace")] = found[1].decode()
    return refs


def _split_lines(body: bytes) -> Iterator[bytes]:
    """Yield the payloads of pkt-lines; a broken length ends them."""
    at = 0
    while at + 4 <= len(body):
        try:
            length = int(body[at : at + 4], 16)
        except ValueError:
            return
        if length > 4:
            yield body[at + 4 : at + length]
        at += max(length, 4)


def _authorize(token: str) -> dict[str, str]:
    return authorize_basic(token.strip() if ":" in token else f"{USUAL_USER}:{token.strip()}")
