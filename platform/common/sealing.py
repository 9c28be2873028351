"""Secrets that have to be said again, such as a password for somebody else's server, kept so that the database alone
tells nobody. What only has to be recognised is kept as a digest instead (common.digests).

Fernet (AES-128-CBC with HMAC-SHA256) under a key that follows from the installation's: https://github.com/fernet/spec.
"""

import base64
import hmac

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings


class Unreadable(Exception):
    """It was sealed under another key: it has to be given anew."""


def seal(secret: str, use: str) -> str:
    """use: what it is for; sealed for one use, it opens for no other."""
    return _fernet(use).encrypt(secret.encode()).decode()


def unseal(sealed: str, use: str) -> str:
    """Raises Unreadable."""
    try:
        return _fernet(use).decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise Unreadable from None


def _fernet(use: str) -> Fernet:
    key = hmac.digest(settings.SECRET_KEY.encode(), f"sealed {use}".encode(), "sha256")
    return Fernet(base64.urlsafe_b64encode(key))
