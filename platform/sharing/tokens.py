"""Tokens of notebooks: an address that an editor takes as an existing Jupyter server."""

import secrets
from datetime import timedelta

from django.db import transaction

from accounts.credentials import lock_credentials
from accounts.models import ApiToken, User
from accounts.permissions import require
from accounts.services import find_named_errors, note_use
from common.errors import FieldError, InvalidInput, NotFound
from common.secrets import digest_secret
from common.steady_clock import steady_now
from events.record_and_publish import publish_recheck, record
from notebooks.models import Notebook
from notebooks.services import lock_notebook
from sharing.models import NotebookToken

PREFIX = "tnb_"
MOST_OF_A_NOTEBOOK = 20


@transaction.atomic
def create_notebook_token(
    *, actor: User, notebook: Notebook, name: str, days: int | None = None, made_by: ApiToken | None = None
) -> tuple[NotebookToken, str]:
    """Return a new token and its secret, shown only once.

    days: until it expires; None: never by itself. made_by: the API token that asks. Raises InvalidInput, NotPermitted.
    """
    require(actor, "job.enter", notebook.team, notebook.user_id)
    row = lock_notebook(notebook.pk)
    lock_credentials(actor, made_by)
    if errors := _check(row, name, days):
        raise InvalidInput(errors)
    secret = PREFIX + secrets.token_urlsafe(32)
    token = NotebookToken.objects.create(
        user=actor,
        notebook=row,
        name=name.strip(),
        prefix=secret[:10],
        digest=digest_secret(secret),
        expires_at=None if days is None else steady_now() + timedelta(days=days),
        made_by=made_by,
    )
    record(row, "token_made", actor=actor.as_actor, params={"name": token.name, "days": days})
    token.refresh_from_db()
    return token, secret


@transaction.atomic
def end_notebook_token(*, actor: User, notebook: Notebook, token_id: int) -> None:
    """Delete a token and close what it has opened. Raises NotFound, NotPermitted."""
    require(actor, "job.stop", notebook.team, notebook.user_id)
    row = lock_notebook(notebook.pk)
    token = row.tokens.filter(pk=token_id).first()
    if token is None:
        raise NotFound(kind="token", id=token_id)
    token.delete()
    record(row, "token_ended", actor=actor.as_actor, params={"name": token.name})
    publish_recheck(token.user_id)


def find_notebook_token(secret: str) -> NotebookToken | None:
    """Return the live token of this secret, and note its use."""
    rows = NotebookToken.objects.live().select_related("user")
    token = rows.filter(digest=digest_secret(secret)).first()
    if token is not None:
        note_use(token)
    return token


def _check(notebook: Notebook, name: str, days: int | None) -> list[FieldError]:
    errors = find_named_errors(name, days)
    if notebook.tokens.count() >= MOST_OF_A_NOTEBOOK:
        errors.append(FieldError("/name", "too_many_notebook_tokens", {"max": MOST_OF_A_NOTEBOOK}))
    return errors
