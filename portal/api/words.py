"""The API's own sentences: HTTP refusals and problem titles."""

from django.utils.translation import gettext_lazy as _

from common.errors import FieldError, PlatformError
from common.words import ERROR_WORDS, error_words, field_words

WORDS = {
    "agent_key_taken": _(
        "The key was made on another machine: the agent's folder was copied with the disk. Delete the folder on "
        "%(node)s, and enrol it with a new token."
    ),
    "bad_agent_key": _(
        "This key of an agent is unknown or was revoked. Ask an administrator for an enrolment token, and enrol again."
    ),
    "bad_enrolment": _(
        "This enrolment token is unknown, or a newer one was made for the machine. Ask an administrator for a new one."
    ),
    "bad_request": _("The request cannot be read. Check its headers and its body."),
    "bad_token": _("This token is unknown, expired or revoked. Make a new one in the portal, under API tokens."),
    "csrf_failed": _(
        "The request does not carry this session's CSRF token. Send it as X-CSRFToken, or use an API token."
    ),
    "enrolment_expired": _(
        "This enrolment token of %(node)s is too old. Ask an administrator for a new one, and use it at once."
    ),
    "enrolment_used": _(
        "This enrolment token of %(node)s was used by another key. If that was not you, revoke the agent; in any case "
        "ask for a new token."
    ),
    "method_not_allowed": _("%(method)s is not possible here. Use one of: %(allowed)s."),
    "missing_scope": _("The token lacks the scope %(scope)s. Make a token that has it."),
    "no_scope_declared": _("This address is closed, since nobody said who may use it. Tell an administrator."),
    "not_an_agent": _("Only the agent of a machine may do this, with the key that it enrolled with."),
    "not_your_machine": _("This key speaks for %(own)s only, not for %(asked)s. Enrol each machine by itself."),
    "not_acceptable": _("This address cannot answer in the form that the Accept header asks for. Ask for: %(known)s."),
    "unsupported_media_type": _("The body's Content-Type is “%(got)s”. Send one of: %(known)s."),
}

FIELDS = {
    "bad_agent_key_shape": _("This is no key of an agent. Send tag_ and 43 to 86 letters, digits and dashes."),
    "bad_cursor": _("This cursor is none of ours. Take next_cursor of the page before as it is, or leave it out."),
    "bad_idempotency_key": _(
        "The Idempotency-Key must be 1 to %(max)s visible ASCII characters. Send a UUID, for example."
    ),
    "bad_machine_name": _(
        "“%(got)s” is no name of a machine. Use up to 63 letters, digits, dots, dashes and underscores, with a letter "
        "or digit first."
    ),
    "card_twice": _("Two cards of the report are called %(got)s. Each has its own."),
    "json_not_an_object": _("The body must be a JSON object. Begin it with a brace."),
    "not_square": _("The matrix has a row and a column for each of the %(cards)s cards, or is left empty."),
}

TITLES = {
    "idempotency_key_reused": _("This key was used before"),
    "impossible": _("This can never run here"),
    "user_limit": _("You are at your limit"),
}
TITLES_BY_STATUS = {
    400: _("Something that was sent cannot be used"),
    401: _("You are not signed in"),
    403: _("You may not do this"),
    404: _("There is no such thing"),
    405: _("This is not possible here"),
    406: _("It cannot be answered in this form"),
    409: _("This clashes with what is there"),
    412: _("It has changed meanwhile"),
    413: _("This is too large"),
    415: _("It cannot be read in this form"),
    416: _("There are no such bytes"),
    422: _("This was understood and cannot be done"),
    429: _("Too many requests"),
    503: _("Something does not answer"),
}


def title_of(error: PlatformError) -> str:
    return str(TITLES.get(error.code) or TITLES_BY_STATUS.get(error.status) or _("Something went wrong"))


def detail_of(error: PlatformError) -> str:
    """Return the sentence for `error`; for one wrong field, that field's."""
    if error.code in WORDS and error.code not in ERROR_WORDS:
        return str(WORDS[error.code]) % {name: _text(value) for name, value in error.params.items()}
    return error_words(error)


def field_of(error: FieldError) -> str:
    if error.code in FIELDS:
        return str(FIELDS[error.code]) % {name: _text(value) for name, value in error.params.items()}
    return field_words(error)


def _text(value: object) -> str:
    return ", ".join(str(item) for item in value) if isinstance(value, list | tuple) else str(value)
