"""Ask an image registry for a tag's digest, without pulling. Addresses are checked as for webhooks.

Sources: OCI Distribution Specification 1.1; distribution's docs/content/spec/auth/token.md.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode, urlsplit

from common.safe_http import Reply, Unreached, authorize_basic, send_request
from runtimes.images.names import DEFAULT_REGISTRY, DIGEST, REPOSITORY, TAG, ImageName, RegistryLogin

SERVED_BY = {DEFAULT_REGISTRY: "registry-1.docker.io"}
"""Hosts of registries that do not answer at their own name."""
KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
MOST_MANIFEST = 4 << 20
"""Bytes; the least that the specification requires registries to accept."""
CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class Reach:
    """Network settings. allowed: besides the internet. authority: extra CA file. plain: registries without TLS."""

    allowed: Sequence[str] = ()
    authority: str = ""
    plain: Sequence[str] = ()


class Unresolved(Exception):
    """No digest found. why: bad_name, not_found, denied, refused, or a reason of egress. words: the registry's."""

    def __init__(self, why: str, words: str = ""):
        super().__init__(why)
        self.why, self.words = why, words


def find_digest(image: ImageName, login: RegistryLogin | None, reach: Reach) -> str:
    """Return "sha256:..." of the tag; the index's for several platforms. Raises Unresolved."""
    if not REPOSITORY.fullmatch(image.repository) or not TAG.fullmatch(image.tag):
        raise Unresolved("bad_name")
    scheme = "http" if image.registry in reach.plain else "https"
    host = SERVED_BY.get(image.registry, image.registry)
    url = f"{scheme}://{host}/v2/{image.repository}/manifests/{image.tag}"
    try:
        return _read_digest(url, image, login, reach)
    except Unreached as unreached:
        raise Unresolved(unreached.why) from None


def _read_digest(url: str, image: ImageName, login: RegistryLogin | None, reach: Reach) -> str:
    headers = {"Accept": ", ".join(KINDS)}
    reply = _send_request("HEAD", url, headers, reach)
    if reply.status == 401:
        headers |= _authorization(reply, image, login, reach)
        reply = _send_request("HEAD", url, headers, reach)
    if reply.status == 200 and DIGEST.fullmatch(told := reply.headers.get("docker-content-digest", "")):
        return told
    whole = _send_request("GET", url, headers, reach, MOST_MANIFEST + 1)
    if whole.status != 200:
        raise _build_refusal(whole)
    if len(whole.body) > MOST_MANIFEST:
        raise Unresolved("refused", "Its manifest is larger than 4 MiB.")
    return "sha256:" + hashlib.sha256(whole.body).hexdigest()


def _authorization(challenged: Reply, image: ImageName, login: RegistryLogin | None, reach: Reach) -> dict[str, str]:
    """Answer a registry's challenge."""
    said = challenged.headers.get("www-authenticate", "")
    scheme, words = said.partition(" ")[0].lower(), dict(CHALLENGE.findall(said))
    basic = authorize_basic(f"{login.user}:{login.password}") if login else {}
    if scheme == "basic" and login:
        return basic
    if scheme != "bearer" or "realm" not in words:
        raise Unresolved("denied")
    if urlsplit(words["realm"]).scheme != "https" and image.registry not in reach.plain:
        raise Unresolved("tls")  # no password unencrypted
    asked = {"scope": f"repository:{image.repository}:pull"}
    asked |= {"service": words["service"]} if "service" in words else {}
    joint = "&" if "?" in words["realm"] else "?"
    reply = _send_request("GET", f"{words['realm']}{joint}{urlencode(asked)}", basic, reach)
    if reply.status != 200:
        raise _build_refusal(reply)
    try:
        token = json.loads(reply.body)
        return {"Authorization": f"Bearer {token.get('token') or token['access_token']}"}
    except (ValueError, KeyError, AttributeError):
        raise Unresolved("refused") from None


def _send_request(method: str, url: str, headers: dict[str, str], reach: Reach, most: int = 64 << 10) -> Reply:
    return send_request(method, url, headers, reach.allowed, most=most, authority=reach.authority)


def _build_refusal(reply: Reply) -> Unresolved:
    why = {401: "denied", 403: "denied", 404: "not_found"}.get(reply.status, "refused")
    return Unresolved(why, _read_messages(reply))


def _read_messages(reply: Reply) -> str:
    """Read {"errors": [{"code", "message"}]}."""
    try:
        return ", ".join(str(each["message"]) for each in json.loads(reply.body)["errors"])[:200]
    except (ValueError, KeyError, TypeError):
        return f"HTTP {reply.status}"
