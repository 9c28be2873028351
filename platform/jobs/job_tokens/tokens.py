"""The API token of a job (`token` in the job file): made for each attempt, given to its tasks, revoked at its end.

It acts for the job's owner within the scopes that the file names. Whoever submits with a token gives a job no more than
that token may do, and the job's token ends with it.
"""

from collections.abc import Collection, Iterable

from accounts.credentials import find_scope_errors
from accounts.models import User
from accounts.services import create_held_token, revoke_held_tokens
from common.errors import InvalidInput
from events.record_and_publish import SYSTEM, record
from jobs.models import Job

VARIABLE = "TESSERA_TOKEN"
URL = "TESSERA_URL"
"""Both as the command line and Python programs of people read them."""


def check_scopes(actor: User, scopes: Collection[str]) -> None:
    """Refuse scopes beyond those of the token by which `actor` asks. Raises InvalidInput."""
    if scopes and (errors := find_scope_errors([*scopes], "/token", actor.acting_token)):
        raise InvalidInput(errors)


def make_token(job: Job) -> str | None:
    """Return a token for the job's newest attempt; None if the one by which it was submitted has ended.

    Its owner's and its own row are locked.
    """
    made = create_held_token(user=job.user, holder=job.public_id, scopes=job.spec["token"], made_by=job.made_by)
    if made is None:
        return None
    token, secret = made
    told = {"prefix": token.prefix, "scopes": ", ".join(token.scopes), "attempt": job.attempt}
    record(job, "token_made", actor=SYSTEM, params=told)
    return secret


def end_tokens(jobs: Iterable[Job]) -> None:
    """Revoke the tokens of jobs whose attempts end, in the transaction in which they do."""
    if holders := [job.public_id for job in jobs if job.spec.get("token")]:
        revoke_held_tokens(holders)
