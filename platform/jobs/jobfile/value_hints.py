"""Suggest accepted values for errors in a job file."""

from common.errors import FieldError, Hint

_YES_NO = {"yes": True, "on": True, "y": True, "no": False, "off": False, "n": False}


def suggest_values(errors: list[FieldError], data: dict | None = None) -> list[Hint]:
    """Return a hint for each error that a value can fix."""
    hints = [_hint(error, data or {}) for error in errors]
    return [hint for hint in hints if hint is not None]


def _hint(error: FieldError, data: dict) -> Hint | None:
    params, sent = error.params, data.get(error.pointer[1:])
    if error.code == "unknown_value" and "did_you_mean" in params:
        return Hint(error.pointer, params["did_you_mean"])
    if error.code == "too_large" and "max" in params:
        return Hint(error.pointer, params["max"])
    if error.code == "too_small" and "min" in params:
        return Hint(error.pointer, params["min"])
    if error.code == "unit_missing":
        return Hint(error.pointer, f"{params['got']}GB")
    if error.code == "time_above_max":
        return Hint("/max_time", params["time"])
    if error.code == "wrong_type" and params.get("expected") == "true_or_false" and sent in _YES_NO:
        return Hint(error.pointer, _YES_NO[sent])
    return None
