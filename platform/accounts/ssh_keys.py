"""Parse and store public SSH keys.

Formats: authorized_keys(5), RFC 4253 section 6.6, RFC 5656 (ECDSA), RFC 8709 (Ed25519), PROTOCOL.u2f (hardware).
"""

import hashlib
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from accounts.credentials import lock_credentials
from accounts.models import ApiToken, SshKey, User
from common.errors import FieldError, InvalidInput, NotFound
from common.steady_clock import steady_now
from events.record_and_publish import publish_recheck, record

LEAST_RSA_BITS = 2048
LONGEST_LINE = 16_384
MOST_KEYS = 100
NAME_MAX = 64

ED25519, RSA = "ssh-ed25519", "ssh-rsa"
CURVES = {"ecdsa-sha2-nistp256": 65, "ecdsa-sha2-nistp384": 97, "ecdsa-sha2-nistp521": 133}
"""Bytes of an uncompressed point."""
HARDWARE = {"sk-ssh-ed25519@openssh.com": ED25519, "sk-ecdsa-sha2-nistp256@openssh.com": "ecdsa-sha2-nistp256"}
KINDS = (ED25519, *CURVES, RSA, *HARDWARE)

_WORDS = re.compile(r"(?P<kind>\S+)\s+(?P<blob>[A-Za-z0-9+/]+=*)(?:\s+(?P<comment>.*))?")


@dataclass(frozen=True)
class PublicKey:
    """A parsed key. kind: such as "ssh-ed25519". blob: base64."""

    kind: str
    blob: str
    comment: str

    @property
    def fingerprint(self) -> str:
        return fingerprint_of(self.blob)


def fingerprint_of(blob: str) -> str:
    """Return "SHA256:...", as `ssh-keygen -l` prints it."""
    return "SHA256:" + b64encode(hashlib.sha256(b64decode(blob)).digest()).decode().rstrip("=")


def read_public_key(text: str) -> PublicKey:
    """Parse a line. Raises InvalidInput."""
    line = text.strip()
    if "PRIVATE KEY" in line:
        raise _refuse("ssh_private_key")
    found = _WORDS.fullmatch(line) if len(line) <= LONGEST_LINE else None
    if found is None:
        raise _refuse("ssh_key_unreadable")
    kind = found["kind"]
    if kind not in KINDS:
        raise _refuse("ssh_key_unknown_type", got=kind[:60], known=", ".join(KINDS))
    try:
        blob = b64decode(found["blob"], validate=True)
        _check(kind, _Fields(blob))
    except (Base64Error, ValueError):
        raise _refuse("ssh_key_unreadable") from None
    return PublicKey(kind, b64encode(blob).decode(), (found["comment"] or "").strip())


@transaction.atomic
def add_ssh_key(
    *, user: User, key: str, name: str = "", expires_at: datetime | None = None, made_by: ApiToken | None = None
) -> SshKey:
    """Add a public key that nobody has. Raises InvalidInput, NotSignedIn.

    made_by: the token that asks; the key never outlives it.
    """
    public = read_public_key(key)
    name = (name or public.comment[:NAME_MAX]).strip() or public.kind
    if len(name) > NAME_MAX or not name.isprintable():
        raise InvalidInput([FieldError("/name", "bad_name", {"max": NAME_MAX})])
    if expires_at and expires_at <= timezone.now():
        raise InvalidInput([FieldError("/expires_at", "in_the_past")])
    lock_credentials(user, made_by)
    end = made_by.expires_at if made_by else None
    if expires_at and end and expires_at > end:
        raise InvalidInput([FieldError("/expires_at", "ssh_key_outlives_token", {"until": end.timestamp()})])
    if SshKey.objects.filter(user=user).count() >= MOST_KEYS:
        raise _refuse("ssh_key_too_many", max=MOST_KEYS)
    fields = {"kind": public.kind, "blob": public.blob, "fingerprint": public.fingerprint}
    try:
        with transaction.atomic():
            row = SshKey.objects.create(user=user, name=name, expires_at=expires_at or end, made_by=made_by, **fields)
    except IntegrityError:
        other = SshKey.objects.get(fingerprint=public.fingerprint)
        raise _refuse("ssh_key_yours" if other.user_id == user.pk else "ssh_key_of_another", name=other.name) from None
    row.refresh_from_db()
    _record(user, "ssh_key_added", row)
    return row


@transaction.atomic
def remove_ssh_key(*, user: User, key_id: int) -> None:
    """Remove a key; its open connections close at their next check."""
    lock_credentials(user, None)
    if not remove_ssh_keys(user=user, rows=SshKey.objects.filter(user=user, pk=key_id)):
        raise NotFound(kind="ssh_key", id=key_id)


def remove_ssh_keys(*, user: User, rows: QuerySet[SshKey]) -> int:
    """Remove keys of one person and return how many. Inside a transaction."""
    found = list(rows.select_for_update(of=("self",)))
    for row in found:
        row.delete()
        _record(user, "ssh_key_removed", row)
    if found:
        publish_recheck(user.pk)
    return len(found)


def find_key(fingerprint: str) -> SshKey | None:
    """Return the unexpired key of an active person."""
    return SshKey.objects.live().filter(fingerprint=fingerprint).select_related("user").first()


def has_expired(fingerprint: str) -> bool:
    return SshKey.objects.filter(fingerprint=fingerprint, expires_at__lte=steady_now()).exists()


def _record(user: User, verb: str, row: SshKey) -> None:
    User.objects.select_for_update().get(pk=user.pk)  # writing a row's history needs its lock
    params = {"name": row.name, "fingerprint": row.fingerprint}
    record(user, verb, actor=user.as_actor, params=params)


def _refuse(code: str, **params: object) -> InvalidInput:
    return InvalidInput([FieldError("/key", code, params)])


class _Fields:
    """Reads a blob's strings in turn. Raises ValueError at a cut."""

    def __init__(self, blob: bytes):
        self.rest = blob

    def next(self) -> bytes:
        size = int.from_bytes(self.rest[:4], "big")
        if len(self.rest) < 4 + size:
            raise ValueError("cut short")
        field, self.rest = self.rest[4 : 4 + size], self.rest[4 + size :]
        return field


def _check(kind: str, fields: _Fields) -> None:
    """Raise ValueError for a malformed key, InvalidInput for a weak one."""
    if fields.next() != kind.encode():
        raise ValueError("another kind")
    plain = HARDWARE.get(kind, kind)
    if plain == RSA:
        fields.next()
        bits = int.from_bytes(fields.next(), "big").bit_length()
        if bits < LEAST_RSA_BITS:
            raise _refuse("ssh_key_weak", bits=bits, min=LEAST_RSA_BITS)
    elif plain == ED25519:
        _expect(len(fields.next()) == 32)
    else:
        _expect(fields.next().decode() == plain.removeprefix("ecdsa-sha2-"))
        _expect(len(fields.next()) == CURVES[plain])
    if kind in HARDWARE:
        _expect(len(fields.next()) > 0)  # the application, "ssh:"
    _expect(not fields.rest)


def _expect(holds: bool) -> None:
    if not holds:
        raise ValueError("no such key")
