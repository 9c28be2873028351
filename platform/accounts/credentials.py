"""What holds for tokens and SSH keys alike when a token makes them."""

from accounts.models import ApiToken, User
from common.errors import NotSignedIn
from common.locks import lock_rows


def lock_credentials(user: User, made_by: ApiToken | None) -> None:
    """Let nothing be made while its maker is revoked, and nothing above a limit: one at a time for each person.

    Raises NotSignedIn if the token that asks was revoked or has expired meanwhile.
    """
    lock_rows(User.objects.filter(pk=user.pk))
    if made_by is not None and not ApiToken.objects.live().filter(pk=made_by.pk).exists():
        raise NotSignedIn("bad_token")
