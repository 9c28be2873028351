"""Invite people by link or mail, in one step."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from smtplib import SMTPException

from django.conf import settings
from django.core.mail import EmailMessage
from django.db import transaction
from django.utils.translation import gettext as _

from accounts.directory import invite_person
from accounts.models import Team, User
from accounts.services import INVITATION_LIFETIME

log = logging.getLogger("tessera.portal")


@dataclass(frozen=True)
class Invitation:
    """A link that was made. email: to whom it is; sent: the mail server took it."""

    url: str
    email: str = ""
    sent: bool = False


def invite(*, actor: User, team: Team, role: str, emails: Iterable[str]) -> list[Invitation]:
    """Make a link for each address, or one, and mail them where mail is set up. Each link is shown, mailed or not."""
    with transaction.atomic():
        made = [
            Invitation(settings.TESSERA_PUBLIC_URL + invite_person(actor=actor, team=team, role=role), email)
            for email in (list(emails) or [""])
        ]
    return [Invitation(one.url, one.email, bool(one.email) and _mail(one, actor, team)) for one in made]


def _mail(invitation: Invitation, actor: User, team: Team) -> bool:
    """Return whether the mail server took it: the link is committed, and shown in any case."""
    if not settings.TESSERA_MAIL:
        return False
    words = {"who": actor.full_name or actor.username, "team": team.title or team.name, "url": invitation.url}
    words["days"] = str(INVITATION_LIFETIME.days)
    subject = _("%(who)s invites you to Tessera") % words
    body = _(
        "%(who)s invites you to team %(team)s on Tessera, where you start notebooks and jobs on shared GPUs.\n\n"
        "Choose a user name and a password:\n%(url)s\n\nThe link works once, within %(days)s days."
    )
    try:
        EmailMessage(subject, body % words, to=[invitation.email]).send()
    except (OSError, SMTPException) as refused:
        log.warning("an invitation was not mailed: %s", refused)
        return False
    return True
