"""How job files name volumes: `volume:imagenet`, `volume:imagenet/train`."""

VOLUME_NAME = r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?"
"""Of a name, also for JSON Schema."""
