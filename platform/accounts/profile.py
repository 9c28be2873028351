"""What people change of their own account: name, mail address, language and time zone.

Nobody is found by a mail address: people sign in by user name, and a link or an invitation goes to whoever an
administrator hands it. So an address opens no account, and two accounts may have the same.
"""

from copy import copy
from typing import TypedDict, Unpack

from django.conf import settings
from django.db import transaction

from accounts.models import User
from accounts.services import clean_row
from accounts.time_zones import is_zone
from common.errors import FieldError, InvalidInput
from common.locks import lock_rows
from events.record_and_publish import record_change


class Profile(TypedDict, total=False):
    """language, time_zone: "" for the browser's and the site's."""

    full_name: str
    email: str
    language: str
    time_zone: str


PROFILE_FIELDS = tuple(Profile.__annotations__)


@transaction.atomic
def change_profile(user: User, **fields: Unpack[Profile]) -> User:
    """Change some of one's own fields, and return the row as it is now. Raises InvalidInput."""
    (row,) = lock_rows(User.objects.filter(pk=user.pk))
    before = copy(row)
    for name, value in fields.items():
        setattr(row, name, str(value).strip())
    _check(row)
    clean_row(row)
    row.save(update_fields=PROFILE_FIELDS)
    record_change(row, before, PROFILE_FIELDS, "changed", actor=user.as_actor)
    return row


def _check(user: User) -> None:
    errors = []
    if user.language and user.language not in (known := dict(settings.LANGUAGES)):
        errors.append(FieldError("/language", "unknown_value", {"got": user.language[:40], "allowed": list(known)}))
    if user.time_zone and not is_zone(user.time_zone):
        errors.append(FieldError("/time_zone", "unknown_zone", {"got": user.time_zone[:40]}))
    if errors:
        raise InvalidInput(errors)
