"""Reasons as sentences, in the reader's language and people's units. The same words at every door."""

from django.utils.translation import gettext as _

from common.amounts import show_params
from jobs.states import REASONS, WAIT_REASONS


def wait_words(reason: dict) -> str:
    """One reason of Job.wait_reasons as a sentence."""
    code, params = reason["code"], reason.get("params", {})
    template = WAIT_REASONS.get(code, WAIT_REASONS["unexplained"])
    return str(template) % _Blank(show_params(params))


def end_words(code: str) -> str:
    """Why a job or task ended; "" while there is no reason."""
    return str(REASONS[code].words) if code in REASONS else code.replace("_", " ")


def end_hint(code: str) -> str:
    return str(REASONS[code].hint) if code in REASONS else ""


class _Blank(dict):
    """A sentence never fails for a number that an older scheduler did not record."""

    def __missing__(self, key: str) -> str:
        return _("some")
