"""Secrets in the database: a digest of those that are shown once, and encryption of those that are read again.

Encrypted by Fernet (AES-128-CBC with HMAC-SHA256, https://github.com/fernet/spec) under a key derived from the
installation's.
"""

import base64
import hashlib
import hmac

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings


class Unreadable(Exception):
    """It was sealed under another key and must be entered anew."""


def digest_secret(secret: str) -> str:
    """Return a secret's SHA-256. Secrets have 256 random bits, so no salt is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def seal_secret(secret: str, use: str) -> str:
    """Encrypt a secret for one use only."""
    return _fernet(use).encrypt(secret.encode()).decode()


def unseal_secret(sealed: str, use: str) -> str:
    """Decrypt a secret. Raises Unreadable."""
    try:
        return _fernet(use).decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise Unreadable from None


def _fernet(use: str) -> Fernet:
    key = hmac.digest(settings.SECRET_KEY.encode(), f"sealed {use}".encode(), "sha256")
    return Fernet(base64.urlsafe_b64encode(key))
