"""Amounts of GPUs in quotas, as people write them."""

from decimal import Decimal, InvalidOperation

from common.errors import FieldError, InvalidInput

MOST_CARDS = 1_000_000


def parse_cards(value: object, pointer: str = "") -> int:
    """Parse cards, as 1.5 or 1/4, to thousandths. Raises InvalidInput."""
    over, _slash, under = str(value).partition("/")
    try:
        number = Decimal(over) / (Decimal(under) if under else 1)
        milli = number * 1000
    except (InvalidOperation, ZeroDivisionError):
        raise _bad(value, pointer) from None
    if not number.is_finite() or number < 0 or number > MOST_CARDS or milli != int(milli):
        raise _bad(value, pointer)
    return int(milli)


def cards_text(milli: int) -> str:
    """Format thousandths exactly, as `parse_cards` reads them."""
    whole, rest = divmod(milli, 1000)
    return f"{whole}.{rest:03}".rstrip("0") if rest else str(whole)


def _bad(value: object, pointer: str) -> InvalidInput:
    return InvalidInput([FieldError(pointer, "bad_cards", {"got": str(value)[:40]})])
