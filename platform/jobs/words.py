"""Sentences for reason codes, in the reader's language."""

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from common.amounts import show_params
from jobs.states import REASONS, WAIT_REASONS

RESIZE_REFUSED = {
    "gpu": gettext_lazy("Its card has no room for more now."),
    "team_limit": gettext_lazy("The team is at its limit of GPUs."),
    "user_limit": gettext_lazy("Its owner is at the limit of GPUs."),
    "quota": gettext_lazy("The team has no quota in this pool any more."),
}
"""What had no room for a larger slice; a refusal by the runtime is shown in its own words."""


def wait_words(reason: dict) -> str:
    """Return an entry of Job.wait_reasons as a sentence."""
    code, params = reason["code"], reason.get("params", {})
    template = WAIT_REASONS.get(_variant(code, params), WAIT_REASONS["unexplained"])
    return str(template) % _Blank(show_params(params))


def _variant(code: str, params: dict) -> str:
    """Return the template's key: plural, or for a slice what it is short of."""
    if code in {"ahead_in_queue", "making_room"} and params.get("n") == 1:
        return f"{code}.one"
    if code == "maintenance":
        return code + (".now" if "at" not in params else "") + (".several" if params.get("n", 1) > 1 else "")
    if code == "borrow_denied" and "cards" in params:
        return f"{code}.nodes"
    if code == "reserved_for_larger" and "at" not in params:
        return f"{code}.unknown"
    if code != "no_fit_now" or "need_mib" not in params:
        return code
    return f"{code}.slice" if params["free_mib"] < params["need_mib"] else f"{code}.shared"


def end_words(code: str) -> str:
    return str(REASONS[code].words) if code in REASONS else code.replace("_", " ")


def end_hint(code: str) -> str:
    return str(REASONS[code].hint) if code in REASONS else ""


def resize_words(refused: dict | None) -> str:
    if not refused:
        return ""
    return str(RESIZE_REFUSED.get(refused.get("kind", ""), "")) or str(refused.get("detail") or _("It was refused."))


class _Blank(dict):
    """Parameters that default to "some", for old records."""

    def __missing__(self, key: str) -> str:
        return _("some")
