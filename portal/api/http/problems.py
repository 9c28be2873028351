"""Turn every exception of the API into RFC 9457 problem+json."""

from django.core.exceptions import BadRequest, PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import Http404, UnreadablePostError
from django.utils.translation import gettext_lazy as _
from rest_framework import exceptions
from rest_framework.response import Response

from common.errors import (
    FieldError,
    InvalidInput,
    NotFound,
    NotPermitted,
    NotSignedIn,
    PlatformError,
    RangeOutside,
    TooLarge,
    TooManyRequests,
)
from jobs.jobfile.value_hints import suggest_values
from portal.error_pages import find_outage
from portal.wording.errors import describe_error, describe_field_error, link_help

CONTENT_TYPE = "application/problem+json"


TITLES = {
    "idempotency_key_reused": _("This key was already used"),
    "impossible": _("This can never run here"),
    "user_limit": _("Limit reached"),
}
TITLES_BY_STATUS = {
    400: _("Some values are not valid"),
    401: _("You are not signed in"),
    403: _("You may not do this"),
    404: _("Not found"),
    405: _("Not possible here"),
    406: _("Not available in this format"),
    408: _("The request did not arrive in time"),
    409: _("Conflict with something that exists"),
    412: _("Changed in the meantime"),
    413: _("Too large"),
    415: _("This format is not supported"),
    416: _("The range does not exist"),
    422: _("Understood, but not possible"),
    429: _("Too many requests"),
    503: _("A service does not respond"),
    507: _("No space is left"),
}


class BadWords(InvalidInput):
    """Errors of a serializer, with its sentences in `words`."""

    def __init__(self, errors: list[FieldError], words: list[str]):
        super().__init__(errors)
        self.words = words


class MethodNotAllowed(PlatformError):
    status = 405
    code = "method_not_allowed"


class NotAcceptable(PlatformError):
    status = 406
    code = "not_acceptable"


class UnsupportedMediaType(PlatformError):
    """params: got, known (a list)."""

    status = 415
    code = "unsupported_media_type"


def exception_handler(exc: Exception, context: dict) -> Response | None:
    """REST_FRAMEWORK["EXCEPTION_HANDLER"]. None for our faults, so that Django logs and answers 500."""
    error = as_platform_error(exc, context)
    if error is None:
        return None
    request = context["request"]
    response = Response(problem(error, request), status=error.status, content_type=CONTENT_TYPE)
    if error.status == NotSignedIn.status:
        response["WWW-Authenticate"] = 'Bearer realm="tessera"'
    if error.status == MethodNotAllowed.status:
        response["Allow"] = ", ".join(error.params["allowed"])
    if isinstance(error, RangeOutside):
        response["Content-Range"] = f"bytes */{error.params['size']}"
    if "retry_after_s" in error.params:
        response["Retry-After"] = str(error.params["retry_after_s"])
    return response


def problem(error: PlatformError, request) -> dict:
    """Return {type, title, status, detail, instance, code, help, params, request_id, errors, hints}."""
    errors = getattr(error, "errors", [])
    words = getattr(error, "words", None) or [describe_field_error(one) for one in errors]
    return {
        "type": f"urn:tessera:problem:{error.code}",
        "title": title_of(error),
        "status": error.status,
        "detail": words[0] if len(words) == 1 else describe_error(error),
        "instance": request.path,
        "code": error.code,
        "help": link_help(error.code),
        "params": error.params,
        "request_id": getattr(request, "request_id", ""),
        "errors": [
            {"pointer": one.pointer, "code": one.code, "detail": text, "params": one.params}
            for one, text in zip(errors, words, strict=True)
        ],
        "hints": [{"action": "set", "pointer": hint.pointer, "value": hint.value} for hint in _hints(error)],
    }


def title_of(error: PlatformError) -> str:
    return str(TITLES.get(error.code) or TITLES_BY_STATUS.get(error.status) or _("Something went wrong"))


def as_platform_error(exc: Exception, context: dict) -> PlatformError | None:
    """Map exceptions of Django and REST framework."""
    if isinstance(exc, PlatformError):
        return exc
    if isinstance(exc, exceptions.APIException):
        return _of_framework(exc, context)
    if isinstance(exc, Http404):
        return NotFound()
    if isinstance(exc, PermissionDenied):
        return NotPermitted()
    if isinstance(exc, RequestDataTooBig):
        return TooLarge()
    if isinstance(exc, SuspiciousOperation | BadRequest | UnreadablePostError):
        return InvalidInput([], code="bad_request")
    return find_outage(exc)


def _of_framework(exc: exceptions.APIException, context: dict) -> PlatformError | None:
    if isinstance(exc, exceptions.ValidationError):
        return _of_serializer(exc.get_full_details())
    if isinstance(exc, exceptions.MethodNotAllowed):
        allowed = [method for method in context["view"].allowed_methods if method != "OPTIONS"]
        return MethodNotAllowed(method=context["request"].method, allowed=allowed)
    if isinstance(exc, exceptions.NotAcceptable):
        return NotAcceptable(known=[renderer.media_type for renderer in context["view"].renderer_classes])
    if isinstance(exc, exceptions.Throttled):
        return TooManyRequests(retry_after_s=int(getattr(exc, "wait", None) or 1))
    simple = {401: NotSignedIn(), 403: NotPermitted(), 404: NotFound(), 400: InvalidInput([], code="bad_request")}
    return simple.get(exc.status_code)


def _of_serializer(details: object) -> BadWords:
    found = list(_walk(details, ""))
    return BadWords([FieldError(pointer, code) for pointer, code, _ in found], [text for _, _, text in found])


def _walk(details: object, pointer: str):
    """Yield (pointer, code, sentence) from `ValidationError.get_full_details`."""
    if isinstance(details, list):
        for item in details:
            yield from _walk(item, pointer)
    elif isinstance(details, dict) and set(details) == {"message", "code"} and not isinstance(details["message"], dict):
        yield pointer, str(details["code"]), str(details["message"])
    elif isinstance(details, dict):
        for name, inner in details.items():
            yield from _walk(inner, pointer if name == "non_field_errors" else f"{pointer}/{name}")


def _hints(error: PlatformError) -> list:
    hints = getattr(error, "hints", [])
    return hints or (suggest_values(error.errors) if isinstance(error, InvalidInput) else [])
