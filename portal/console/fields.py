"""Admin form fields for amounts, shown in people's units."""

import re
from collections.abc import Callable

from django import forms
from django.core.exceptions import ValidationError

from common.errors import FieldError, InvalidInput
from common.resources import duration_text, memory_text, parse_cpu, parse_duration, parse_memory
from portal.wording.errors import describe_field_error
from quotas.amounts import cards_text, parse_cards

MONEY = re.compile(r"[0-9]{1,7}(\.[0-9]{1,3})?")


class AmountField(forms.CharField):
    """An integer as text: `read` parses (raising InvalidInput), `write` formats.

    none: value of an empty field. 0 needs no unit.
    """

    widget = forms.TextInput(attrs={"size": 12, "autocomplete": "off"})

    def __init__(self, *, read: Callable[[str], int], write: Callable[[int], str], none: int | None = None, **named):
        super().__init__(required=False, **named)
        self.read, self.write, self.none = read, write, none

    def clean(self, value: object) -> int | None:
        text = str(super().clean(value)).strip()
        if not text:
            return self.none
        if text == "0":
            return 0
        try:
            return self.read(text)
        except InvalidInput as error:
            raise ValidationError([describe_field_error(one) for one in error.errors]) from error

    def prepare_value(self, value: object) -> object:
        if isinstance(value, int):
            return "0" if value == 0 else self.write(value)
        return value

    def has_changed(self, initial: object, data: object) -> bool:
        try:
            return initial != self.clean(data)
        except ValidationError:
            return True


def cards(**named) -> AmountField:
    """Thousandths of a card, as 1.5 or 1/4."""
    return AmountField(read=parse_cards, write=cards_text, **named)


def money(**named) -> AmountField:
    """Thousandths of the currency's unit, as 1.25."""
    return AmountField(read=parse_money, write=cards_text, **named)


def cores(**named) -> AmountField:
    """Thousandths of a core, as 8 or 0.5."""
    return AmountField(read=parse_cpu, write=cards_text, **named)


def memory(**named) -> AmountField:
    """MiB, as 64GB or 64GiB."""
    return AmountField(read=parse_memory, write=memory_text, **named)


def duration(**named) -> AmountField:
    """Seconds, as 90m or 3d."""
    return AmountField(read=parse_duration, write=duration_text, **named)


def parse_money(text: str) -> int:
    """Parse to thousandths. Raises InvalidInput."""
    if not MONEY.fullmatch(text):
        raise _bad("bad_money", text)
    whole, _point, part = text.partition(".")
    return 1000 * int(whole) + int(part.ljust(3, "0"))


def _bad(code: str, text: str) -> InvalidInput:
    return InvalidInput([FieldError("", code, {"got": text[:40]})])
