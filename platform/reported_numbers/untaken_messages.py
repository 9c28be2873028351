"""Sentences for what a task reported and the platform did not take."""

from django.utils.formats import number_format
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from common.amounts import show_bytes
from reported_numbers.curves import Untaken
from reported_numbers.lines import Why

REFUSAL_MESSAGES = {
    Why.BAD_NAME: gettext_lazy(
        "“%(what)s” is not a valid name. Use up to 64 letters, digits and _ . / -, and begin with a letter."
    ),
    Why.LONG_LINE: gettext_lazy("A line is longer than 4 KiB. Report fewer numbers in a line."),
    Why.MANY_NAMES: gettext_lazy("“%(what)s” is one name too many: a task has at most 100. Report fewer."),
    Why.NOT_FINITE: gettext_lazy("“%(what)s” was not finite, but infinite or NaN."),
    Why.NOT_JSON: gettext_lazy(
        '“%(what)s” is not a line that is understood. Write one JSON object in a line: {"loss": 0.31, "step": 100}.'
    ),
    Why.NOT_NUMBER: gettext_lazy("The value of “%(what)s” is not a number. Write it like 10, 0.5 or 3e-4."),
}


def describe_untaken(untaken: Untaken) -> str:
    """Say how much was not taken, and why the first was not."""
    said = []
    if untaken.refused:
        words = ngettext(
            "%(task)s: %(count)s line or number was not taken. %(why)s",
            "%(task)s: %(count)s lines or numbers were not taken, the first because: %(why)s",
            untaken.refused,
        )
        why = REFUSAL_MESSAGES[Why(untaken.why)] % {"what": untaken.what}
        count = number_format(untaken.refused, force_grouping=True)
        said.append(words % {"task": untaken.task, "count": count, "why": why})
    if untaken.skipped:
        words = _("%(task)s: %(size)s were left out, as they came faster than they are read. Report less often.")
        said.append(words % {"task": untaken.task, "size": show_bytes(untaken.skipped)})
    return " ".join(said)
