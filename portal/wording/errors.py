"""Errors as sentences: the tables of all apps together, and those of the portal's own codes."""

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.utils.translation import gettext_lazy as _

import accounts.error_messages
import cluster.error_messages
import common.error_messages
import datasets.error_messages
import environments.error_messages
import files.error_messages
import images.error_messages
import job_templates.error_messages
import jobs.error_messages
import jobs.jobfile.error_messages
import monitoring.error_messages
import notebooks.error_messages
import quotas.error_messages
import runtimes.storage.error_messages
import schedules.error_messages
import secret_store.error_messages
import services.error_messages
import sharing.error_messages
import webhooks.error_messages
from common.error_messages import format_error, format_field
from common.errors import FieldError, InvalidInput, PlatformError

FIELD_MESSAGES = {
    **common.error_messages.FIELD_MESSAGES,
    **runtimes.storage.error_messages.FIELD_MESSAGES,
    **accounts.error_messages.FIELD_MESSAGES,
    **webhooks.error_messages.FIELD_MESSAGES,
    **secret_store.error_messages.FIELD_MESSAGES,
    **cluster.error_messages.FIELD_MESSAGES,
    **quotas.error_messages.FIELD_MESSAGES,
    **files.error_messages.FIELD_MESSAGES,
    **images.error_messages.FIELD_MESSAGES,
    **datasets.error_messages.FIELD_MESSAGES,
    **jobs.jobfile.error_messages.FIELD_MESSAGES,
    **jobs.error_messages.FIELD_MESSAGES,
    **job_templates.error_messages.FIELD_MESSAGES,
    **monitoring.error_messages.FIELD_MESSAGES,
    **notebooks.error_messages.FIELD_MESSAGES,
    **sharing.error_messages.FIELD_MESSAGES,
    **schedules.error_messages.FIELD_MESSAGES,
    **environments.error_messages.FIELD_MESSAGES,
    **services.error_messages.FIELD_MESSAGES,
    "bad_cards": _(
        "“%(got)s” is not a valid number of cards. Use a number such as 2 or 1.5, or a fraction such as 1/4."
    ),
    "bad_cursor": _("This cursor is not valid. Use next_cursor of the previous page unchanged, or leave it out."),
    "bad_idempotency_key": _(
        "The Idempotency-Key must be 1 to %(max)s visible ASCII characters. Send a UUID, for example."
    ),
    "bad_money": _("“%(got)s” is not a valid amount. Use a number such as 2 or 1.25, with up to three places."),
    "json_not_an_object": _("The body must be a JSON object. Begin it with a brace."),
    "too_many_views": _("You have %(max)s saved views, which is the most: delete one first."),
    "unknown_node": _("There is no machine “%(node)s”. Choose one of: %(known)s."),
}
ERROR_MESSAGES = {
    **common.error_messages.ERROR_MESSAGES,
    **runtimes.storage.error_messages.ERROR_MESSAGES,
    **webhooks.error_messages.ERROR_MESSAGES,
    **secret_store.error_messages.ERROR_MESSAGES,
    **cluster.error_messages.ERROR_MESSAGES,
    **files.error_messages.ERROR_MESSAGES,
    **datasets.error_messages.ERROR_MESSAGES,
    **jobs.error_messages.ERROR_MESSAGES,
    **job_templates.error_messages.ERROR_MESSAGES,
    **monitoring.error_messages.ERROR_MESSAGES,
    **notebooks.error_messages.ERROR_MESSAGES,
    **schedules.error_messages.ERROR_MESSAGES,
    **environments.error_messages.ERROR_MESSAGES,
    **services.error_messages.ERROR_MESSAGES,
    "bad_agent_key": _(
        "This agent key is unknown or was revoked. Ask an administrator for an enrolment token, and enrol again."
    ),
    "bad_request": _("The request cannot be read. Check its headers and its body."),
    "bad_token": _("This token is unknown, expired or revoked. Create a new one in the portal, under API tokens."),
    "csrf_failed": _(
        "The request does not carry this session's CSRF token. Send it as X-CSRFToken, or use an API token."
    ),
    "database_away": _(
        "The platform's database does not respond, so nothing can be shown or changed now. Running jobs "
        "continue. Try again in a minute."
    ),
    "foreign_origin": _("This request came from another site, so it was refused. Open the page here and try again."),
    "method_not_allowed": _("%(method)s is not possible here. Use one of: %(allowed)s."),
    "missing_scope": _("The token lacks the scope %(scope)s. Create a token that has it."),
    "no_app_host": _(
        "Apps have no address of their own here. Ask an administrator to set TESSERA_APPS_URL to a wildcard host."
    ),
    "no_scope_declared": _("This address is closed because no scope is declared for it. Tell an administrator."),
    "not_acceptable": _("This address cannot answer in the format of the Accept header. Ask for: %(known)s."),
    "not_an_agent": _("Only the agent of a machine may do this, with the key that it enrolled with."),
    "not_an_image": _("This is not an image that can be shown here. Download it instead."),
    "not_your_machine": _("This key is for %(own)s only, not for %(asked)s. Enrol each machine separately."),
    "page_expired": _("You signed in or out elsewhere while this page was open. Reload it and try again."),
    "too_many_streams": _(
        "You already have %(limit)s event streams open. Close one, or read several topics from one stream."
    ),
    "unsupported_media_type": _("The body's Content-Type is “%(got)s”. Send one of: %(known)s."),
    "user_limit.ssh_sessions": _("You have %(used)s of at most %(limit)s SSH sessions open. Close one first."),
    "user_limit.terminals": _("You have %(used)s of at most %(limit)s terminals open. Close one first."),
}


def describe_field_error(error: FieldError) -> str:
    return format_field(error, FIELD_MESSAGES)


def describe_error(error: PlatformError) -> str:
    return format_error(error, ERROR_MESSAGES)


def link_help(code: str) -> str:
    """Return the address of the documents' entry about an error."""
    return f"{settings.TESSERA_PUBLIC_URL}/help/reference/errors/#{code}"


def describe_refusal(error: PlatformError) -> str:
    """Return an error in one line: the sentences of its fields, or its own."""
    return " ".join(describe_field_error(one) for one in getattr(error, "errors", [])) or describe_error(error)


def describe_stored_refusal(why: Mapping[str, Any]) -> str:
    """Say a refusal of which common.errors.describe_as_json kept what its sentence is made of."""
    params = why.get("params", {})
    if errors := why.get("errors"):
        return describe_refusal(InvalidInput([FieldError(**one) for one in errors]))
    return describe_refusal(PlatformError(why.get("code", ""), **params))
