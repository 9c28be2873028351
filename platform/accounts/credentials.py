"""What holds for tokens and SSH keys alike when a token makes them."""

from collections.abc import Sequence

from accounts.models import ApiToken, User
from accounts.scopes import SCOPES
from common.errors import FieldError, NotSignedIn
from common.locks import lock_rows


def lock_credentials(user: User, made_by: ApiToken | None) -> None:
    """Let nothing be made while its maker is revoked, and nothing above a limit: one at a time for each person.

    Raises NotSignedIn if the token that asks was revoked or has expired meanwhile.
    """
    lock_rows(User.objects.filter(pk=user.pk))
    if made_by is not None and not ApiToken.objects.live().filter(pk=made_by.pk).exists():
        raise NotSignedIn("bad_token")


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
