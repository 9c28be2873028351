"""What can go wrong, as classes. An error carries a code and values; the words are made at the edge.

The doors (pages, API, CLI) turn these into HTML or problem+json in the caller's language with `common.words`.
"Does not fit now" is no error: it is a refusal in the scheduler's plan.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class FieldError:
    """One thing wrong with one field of an input.

    pointer: JSON pointer into what was sent, such as ``/gpu`` or ``/env/PATH``; "" means the whole input.
    code: stable snake_case word, part of the API.
    params: the values its sentence needs, JSON-able.
    """

    pointer: str
    code: str
    params: dict = field(default_factory=dict)


@dataclass(frozen=True)
class Hint:
    """A change that would make a refused input acceptable: set `pointer` to `value`."""

    pointer: str
    value: object


class PlatformError(Exception):
    """The root. `code` is part of the API and never changes; `params` fill its sentence."""

    status = 500
    code = "internal"

    def __init__(self, code: str = "", **params):
        self.code = code or self.code
        self.params = params
        super().__init__(f"{self.code} {params}" if params else self.code)


class InvalidInput(PlatformError):
    """The input breaks a rule that the caller can read. `errors` names each field."""

    status = 400
    code = "invalid_input"

    def __init__(self, errors: list[FieldError], code: str = "", **params):
        self.errors = errors
        super().__init__(code, **params)


class NotSignedIn(PlatformError):
    status = 401
    code = "not_signed_in"


class NotPermitted(PlatformError):
    """The caller may see the object, and may not do this to it. `action` and `needs` say who could."""

    status = 403
    code = "not_permitted"


class NotFound(PlatformError):
    """No such thing, or none that the caller may see: the two are not told apart."""

    status = 404
    code = "not_found"


class Conflict(PlatformError):
    status = 409
    code = "conflict"


class NameTaken(Conflict):
    code = "name_taken"


class StaleState(Conflict):
    """Somebody else moved the object first. Normal: look again."""

    code = "stale_state"


class ChangedMeanwhile(PlatformError):
    """It is no longer as the caller's If-Match says."""

    status = 412
    code = "changed_meanwhile"


class QuotaExceeded(Conflict):
    """A limit of counts is met (`user_limit`), with used and limit in params."""

    code = "user_limit"


class Impossible(PlatformError):
    """It could never run here. `errors` names the field, `hints` the nearest that could."""

    status = 422
    code = "impossible"

    def __init__(self, errors: list[FieldError], hints: list[Hint] | None = None, **params):
        self.errors = errors
        self.hints = hints or []
        super().__init__("", **params)


class TooLarge(PlatformError):
    status = 413
    code = "too_large"


class RangeOutside(PlatformError):
    """The range that is asked for lies outside the file; `size` in params."""

    status = 416
    code = "range_outside"


class TooManyRequests(PlatformError):
    """A rate limit is met; `retry_after_s` in params."""

    status = 429
    code = "too_many_requests"


class Unavailable(PlatformError):
    """Something we depend on does not answer. Do nothing: the next round repairs."""

    status = 503
    code = "unavailable"


class KeyReused(PlatformError):
    """The same Idempotency-Key came with another body."""

    status = 422
    code = "idempotency_key_reused"
