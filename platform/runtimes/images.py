"""What an image is called: people leave out what every engine fills in, nodes tell the whole name."""

import re
from dataclasses import dataclass

DEFAULT_REGISTRY, OFFICIAL, DEFAULT_TAG = "docker.io", "library", "latest"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
REPOSITORY = re.compile(rf"{_PART}(?:/{_PART})*")
TAG = re.compile(r"\w[\w.-]{0,127}", re.ASCII)
REGISTRY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(?::[0-9]{1,5})?")
"""Source: the grammar of distribution/reference."""


@dataclass(frozen=True)
class ImageName:
    """registry: with its port, where one is named. digest: "sha256:..." or ""; with both, the digest is what counts."""

    registry: str
    repository: str
    tag: str
    digest: str

    def at(self, digest: str) -> str:
        """With this digest, "" for none. The tag stays beside it, for people: engines go by the digest."""
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.registry}/{self.repository}{tag}" + (f"@{digest}" if digest else "")


@dataclass(frozen=True)
class RegistryLogin:
    """Who a registry takes us for when a team's images are fetched."""

    registry: str
    user: str
    password: str

    def __repr__(self) -> str:
        return f"RegistryLogin({self.registry!r}, {self.user!r})"  # no log tells the password


def read_image(name: str) -> ImageName:
    """Source: how distribution/reference reads familiar names: a first part without a dot, a colon or "localhost" is
    none of a registry.
    """
    name, at, digest = name.partition("@")
    registry, slash, rest = name.partition("/")
    if not slash or not is_registry(registry):
        registry, rest = DEFAULT_REGISTRY, name
    if registry == DEFAULT_REGISTRY and "/" not in rest:
        rest = f"{OFFICIAL}/{rest}"
    repository, _, tag = rest.partition(":")
    return ImageName(registry, repository, tag or ("" if at else DEFAULT_TAG), digest)


def image_problem(text: str) -> bool:
    """Whether this can never be the name of an image."""
    image = read_image(text)
    parts = ((image.tag, TAG), (image.digest, DIGEST))
    bad = any(part and not known.fullmatch(part) for part, known in parts) or not (image.tag or image.digest)
    return bad or registry_problem(image.registry) or not REPOSITORY.fullmatch(image.repository)


def registry_problem(text: str) -> bool:
    """Whether this can never be the host of a registry."""
    return not (REGISTRY.fullmatch(text) and is_registry(text))


def is_registry(word: str) -> bool:
    """Whether the first part of a name is one of a registry."""
    return "." in word or ":" in word or word == "localhost"


def image_key(name: str) -> str:
    """The same for all names of one image: "image:docker.io/library/busybox:1.36" for "busybox:1.36". What is pinned is
    known by its digest alone, whatever its tag was.
    """
    image = read_image(name)
    rest = f"@{image.digest}" if image.digest else f":{image.tag}"
    return f"image:{image.registry}/{image.repository}{rest}"
