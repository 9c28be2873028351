"""Encryption of stored secrets that must be read again, such as registry passwords.

Fernet (AES-128-CBC with HMAC-SHA256, https://github.com/fernet/spec) under a key derived from the installation's.
"""

import base64
import hmac

from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings


class Unreadable(Exception):
    """It was sealed under another key and must be entered anew."""


def seal(secret: str, use: str) -> str:
    """Encrypt a secret for one use only."""
    return _fernet(use).encrypt(secret.encode()).decode()


def unseal(sealed: str, use: str) -> str:
    """Decrypt a secret. Raises Unreadable."""
    try:
        return _fernet(use).decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise Unreadable from None


def _fernet(use: str) -> Fernet:
    key = hmac.digest(settings.SECRET_KEY.encode(), f"sealed {use}".encode(), "sha256")
    return Fernet(base64.urlsafe_b64encode(key))
