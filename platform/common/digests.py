"""Digests of secrets that are shown once."""

import hashlib


def digest_of(secret: str) -> str:
    """Return a secret's SHA-256. Secrets have 256 random bits, so no salt is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()
