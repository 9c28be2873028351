"""Secrets sealed for whoever has the private key, which need not be on the machine that seals.

An X25519 key made for this one text, HKDF-SHA256 over both public keys, ChaCha20-Poly1305: the construction of age
(https://age-encryption.org/v1).
"""

import base64
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from common.private_file import create_private_file

PRIVATE, PUBLIC = "tessera-backup-private:", "tessera-backup-public:"
USE = b"tessera backup secrets 1"
NONCE = bytes(12)  # a key seals one text
KEY_BYTES = 32


class BadKey(Exception):
    """A key file that cannot be used, in words."""


def make_key_files(path: Path) -> Path:
    """Write a new private key (0600) and beside it its public one, whose path is returned. Raises FileExistsError."""
    key = X25519PrivateKey.generate()
    public = path.with_name(f"{path.name}.pub")
    for file, mark, content in (
        (path, PRIVATE, key.private_bytes_raw()),
        (public, PUBLIC, key.public_key().public_bytes_raw()),
    ):
        with create_private_file(file) as opened:
            opened.write(f"{mark}{base64.b64encode(content).decode()}\n")
    return public


def read_public_key(path: Path) -> X25519PublicKey:
    """Read a public key, also from the file of a private one. Raises BadKey."""
    mark, content = _read_key(path)
    if mark == PRIVATE:
        return X25519PrivateKey.from_private_bytes(content).public_key()
    return X25519PublicKey.from_public_bytes(content)


def read_private_key(path: Path) -> X25519PrivateKey:
    """Read a private key. Raises BadKey."""
    mark, content = _read_key(path)
    if mark == PUBLIC:
        raise BadKey(f"{path} is the public key, which only seals. Give the private one, which `backup_key` wrote.")
    return X25519PrivateKey.from_private_bytes(content)


def _read_key(path: Path) -> tuple[str, bytes]:
    try:
        text = path.read_text().strip()
        mark = next(mark for mark in (PRIVATE, PUBLIC) if text.startswith(mark))
        content = base64.b64decode(text.removeprefix(mark), validate=True)
    except OSError as error:
        raise BadKey(f"The key file {path} cannot be read: {error.strerror}.") from None
    except (StopIteration, ValueError):
        content = b""
    if len(content) != KEY_BYTES:
        raise BadKey(f"{path} is no key of `backup_key`. Make one with it, or give the file that it wrote.")
    return mark, content


def seal(text: bytes, to: X25519PublicKey) -> bytes:
    once = X25519PrivateKey.generate()
    sender = once.public_key().public_bytes_raw()
    key = _derive_key(once.exchange(to), sender, to.public_bytes_raw())
    return sender + ChaCha20Poly1305(key).encrypt(NONCE, text, None)


def unseal(sealed: bytes, own: X25519PrivateKey) -> bytes:
    """Return the text. Raises BadKey if it was sealed for another key."""
    sender, rest = sealed[:KEY_BYTES], sealed[KEY_BYTES:]
    try:
        shared = own.exchange(X25519PublicKey.from_public_bytes(sender))
        key = _derive_key(shared, sender, own.public_key().public_bytes_raw())
        return ChaCha20Poly1305(key).decrypt(NONCE, rest, None)
    except (InvalidTag, ValueError):
        raise BadKey("The secrets of this backup were sealed for another key.") from None


def _derive_key(shared: bytes, sender: bytes, receiver: bytes) -> bytes:
    return HKDF(SHA256(), KEY_BYTES, salt=sender + receiver, info=USE).derive(shared)
