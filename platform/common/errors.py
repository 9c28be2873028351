"""Errors of the platform: a code and values. portal.wording.errors makes the sentence in the reader's language.

"Does not fit now" is no error but a refusal in the scheduler's plan.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class FieldError:
    """One thing wrong with one field of an input.

    pointer: JSON pointer such as ``/env/PATH``; "" for the whole input. code: stable, part of the API. params: values
    of its sentence, JSON-able.
    """

    pointer: str
    code: str
    params: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Hint:
    """A change that helps: set `pointer` to `value`."""

    pointer: str
    value: object


class PlatformError(Exception):
    """The base of all errors. `code` is part of the API."""

    status = 500
    code = "internal"

    def __init__(self, code: str = "", **params):
        self.code = code or self.code
        self.params = params
        super().__init__(f"{self.code} {params}" if params else self.code)


def describe_as_json(error: PlatformError) -> dict:
    """Return what a sentence of the error is made of, to be kept."""
    errors = getattr(error, "errors", [])
    fields = [{"pointer": one.pointer, "code": one.code, "params": one.params} for one in errors]
    return {"code": error.code, "params": error.params, "errors": fields}


class InvalidInput(PlatformError):
    """The input breaks a rule. `errors` names each field."""

    status = 400
    code = "invalid_input"

    def __init__(self, errors: list[FieldError], code: str = "", **params):
        self.errors = errors
        super().__init__(code, **params)


class NotSignedIn(PlatformError):
    status = 401
    code = "not_signed_in"


class NotPermitted(PlatformError):
    """The caller may see it, but not do this."""

    status = 403
    code = "not_permitted"


class ConsentNeeded(NotPermitted):
    """Somebody else can give this priority; `leads` in params."""

    code = "priority_needs_consent"

    def __init__(self, **params):
        self.errors = [FieldError("/priority", self.code if params["leads"] else f"{self.code}_of_admin", params)]
        super().__init__(**params)


class NotFound(PlatformError):
    """It does not exist, or the caller may not see it."""

    status = 404
    code = "not_found"


class Conflict(PlatformError):
    status = 409
    code = "conflict"


class NameTaken(Conflict):
    code = "name_taken"


class StaleState(Conflict):
    """It was changed meanwhile: read again."""

    code = "stale_state"


class ChangedMeanwhile(PlatformError):
    """It no longer matches If-Match."""

    status = 412
    code = "changed_meanwhile"


class QuotaExceeded(Conflict):
    """A count is at its limit; used and limit in params."""

    code = "user_limit"


class Impossible(PlatformError):
    """It can never run. `hints`: what could."""

    status = 422
    code = "impossible"

    def __init__(self, errors: list[FieldError], hints: list[Hint] | None = None, **params):
        self.errors = errors
        self.hints = hints or []
        super().__init__("", **params)


class BudgetSpent(Conflict):
    """What a team has left of its weekly budget is less than this asks for."""

    code = "priority_budget_spent"

    def __init__(self, **params):
        self.errors = [FieldError("/priority", self.code, params)]
        super().__init__(**params)


class TooSlow(PlatformError):
    """The body of a request stopped arriving."""

    status = 408
    code = "too_slow"


class TooLarge(PlatformError):
    status = 413
    code = "too_large"


class RangeOutside(PlatformError):
    """The range lies outside the file; `size` in params."""

    status = 416
    code = "range_outside"


class TooManyRequests(PlatformError):
    """A rate limit is met; `retry_after_s` in params."""

    status = 429
    code = "too_many_requests"


class Unavailable(PlatformError):
    """A dependency does not answer. The next round repairs."""

    status = 503
    code = "unavailable"


class Busy(Unavailable):
    """More requests than the platform works on at once; this one was not begun."""

    code = "platform_busy"

    def __init__(self) -> None:
        super().__init__(retry_after_s=5)


class DiskFull(Unavailable):
    """The platform's disk is full, so nothing new is accepted. It goes on by itself when there is room."""

    status = 507
    code = "platform_disk_full"


class KeyReused(PlatformError):
    status = 422
    code = "idempotency_key_reused"
