"""Save and delete views of the list of jobs."""

from django.db import transaction

from accounts.models import User
from common.errors import FieldError, InvalidInput, NotFound
from common.locks import lock_rows
from jobs.finding.list_query import ListQuery
from portal.models import SavedView

MOST_VIEWS = 20


@transaction.atomic
def save_view(user: User, name: str, asked: ListQuery) -> tuple[SavedView, bool]:
    """Return the view, and whether it is new: one of the same name is replaced. Raises InvalidInput."""
    name = name.strip()
    if not name or len(name) > SavedView.NAME_MAX or not name.isprintable():
        raise InvalidInput([FieldError("/name", "bad_name", {"max": SavedView.NAME_MAX})])
    list(lock_rows(User.objects.filter(pk=user.pk)))  # or two at once would go beyond the most
    if SavedView.objects.filter(user=user).exclude(name=name).count() >= MOST_VIEWS:
        raise InvalidInput([FieldError("/name", "too_many_views", {"max": MOST_VIEWS})])
    return SavedView.objects.update_or_create(user=user, name=name, defaults={"query": asked.address()})


def delete_view(user: User, view_id: int) -> SavedView:
    """Delete one of the person's own views, and return what it was. Raises NotFound."""
    found = SavedView.objects.filter(user=user, pk=view_id).first()
    if found is None:
        raise NotFound(kind="view", id=view_id)
    found.delete()
    return found
