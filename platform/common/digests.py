"""What is stored of a secret that is shown once."""

import hashlib


def digest_of(secret: str) -> str:
    """What is stored of a token, key or link: its SHA-256. The secrets carry 256 random bits, so no salt is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()
