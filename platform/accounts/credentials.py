"""What holds for tokens and SSH keys alike when a token makes them."""

from collections.abc import Collection, Sequence

from django.db.models.functions import Now

from accounts.models import ApiToken, User
from accounts.scopes import SCOPES
from common.errors import FieldError, NotSignedIn
from common.locks import lock_rows


def lock_credentials(user: User, made_by: ApiToken | None) -> None:
    """Let nothing be made while its maker is revoked, and nothing above a limit: one at a time for each person.

    Raises NotSignedIn if the token that asks was revoked or has expired meanwhile.
    """
    lock_rows(User.objects.filter(pk=user.pk))
    if made_by is not None and not lock_rows(ApiToken.objects.live().filter(pk=made_by.pk), share=True):
        raise NotSignedIn("bad_token")


def revoke_tokens(ids: Collection[int]) -> list[int]:
    """Revoke tokens and all that they made, directly or not; return their ids. Inside a transaction.

    What they made is looked for once they have ended, so that none is made meanwhile (`lock_credentials`).
    """
    ended = [*ids]
    while ids:
        ApiToken.objects.filter(pk__in=ids, revoked_at=None).update(revoked_at=Now())
        ids = list(ApiToken.objects.filter(made_by__in=ids, revoked_at=None).values_list("pk", flat=True))
        ended += ids
    return ended


def find_scope_errors(scopes: Sequence[str], pointer: str, made_by: ApiToken | None) -> list[FieldError]:
    """Return what is wrong with the scopes of a new token. made_by: the token that asks; none goes beyond it."""
    if not scopes:
        return [FieldError(pointer, "required")]
    allowed = set(SCOPES) & set(made_by.scopes if made_by else SCOPES)
    known = ", ".join(sorted(allowed))
    return [
        FieldError(
            pointer, "scope_beyond_token" if scope in SCOPES else "unknown_scope", {"scope": scope, "known": known}
        )
        for scope in scopes
        if scope not in allowed
    ]
