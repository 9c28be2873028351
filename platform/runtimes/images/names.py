"""Names of container images, with defaults filled in."""

import re
from dataclasses import dataclass

DEFAULT_REGISTRY, OFFICIAL, DEFAULT_TAG = "docker.io", "library", "latest"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
REGISTRY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::[0-9]{1,5})?")
"""Source: grammar of distribution/reference."""


@dataclass(frozen=True)
class ImageName:
    """A parsed name. digest: "sha256:..." or ""; overrides the tag."""

    registry: str
    repository: str
    tag: str
    digest: str

    def at(self, digest: str) -> str:
        """Return the name with this digest; the tag stays for people."""
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.registry}/{self.repository}{tag}" + (f"@{digest}" if digest else "")


@dataclass(frozen=True)
class RegistryLogin:
    """A team's account at a registry, for pulling images."""

    registry: str
    user: str
    password: str

    def __repr__(self) -> str:
        return f"RegistryLogin({self.registry!r}, {self.user!r})"  # no password in logs


def read_image(name: str) -> ImageName:
    """Parse a name and fill in defaults.

    Source: familiar names of distribution/reference: a first part is a registry with a dot, colon or as "localhost".
    """
    name, at, digest = name.partition("@")
    registry, slash, rest = name.partition("/")
    if not slash or not is_registry(registry):
        registry, rest = DEFAULT_REGISTRY, name
    if registry == DEFAULT_REGISTRY and "/" not in rest:
        rest = f"{OFFICIAL}/{rest}"
    repository, _, tag = rest.partition(":")
    return ImageName(registry, repository, tag or ("" if at else DEFAULT_TAG), digest)


def is_bad_image(text: str) -> bool:
    """Return whether a name is invalid."""
    image = read_image(text)
    parts = ((image.tag, TAG), (image.digest, DIGEST))
    bad = any(part and not known.fullmatch(part) for part, known in parts) or not (image.tag or image.digest)
    return bad or is_bad_registry(image.registry) or not REPOSITORY.fullmatch(image.repository)


def is_bad_registry(text: str) -> bool:
    """Return whether a registry's host is invalid."""
    return not (REGISTRY.fullmatch(text) and is_registry(text))


def is_registry(word: str) -> bool:
    return "." in word or ":" in word or word == "localhost"


def make_image_key(name: str) -> str:
    """Return one key for all names of an image ("image:docker.io/library/busybox:1.36"), by digest if there is one."""
    image = read_image(name)
    rest = f"@{image.digest}" if image.digest else f":{image.tag}"
    return f"image:{image.registry}/{image.repository}{rest}"
