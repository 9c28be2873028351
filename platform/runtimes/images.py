"""What an image is called: people leave out what every engine fills in, nodes tell the whole name."""

DEFAULT_REGISTRY, OFFICIAL, DEFAULT_TAG = "docker.io", "library", "latest"


def image_key(name: str) -> str:
    """The same for all names of one image: "image:docker.io/library/busybox:1.36" for "busybox:1.36".

    Source: how distribution/reference reads familiar names: a first part without a dot, a colon or "localhost" is none
    of a registry.
    """
    registry, slash, rest = name.partition("/")
    if not slash or not ("." in registry or ":" in registry or registry == "localhost"):
        registry, rest = DEFAULT_REGISTRY, name
    if registry == DEFAULT_REGISTRY and "/" not in rest:
        rest = f"{OFFICIAL}/{rest}"
    if ":" not in rest:  # neither a tag nor a digest
        rest = f"{rest}:{DEFAULT_TAG}"
    return f"image:{registry}/{rest}"
