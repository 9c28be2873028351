"""Sentences for errors, in the reader's language; each names the remedy.

Each app keeps the sentences of its own codes in `error_messages.py`. Here are the formatter and the sentences of codes
that several apps raise. `portal.wording.errors` merges the tables.

Tables are sorted; sentences are whole and have named parameters. Variants of a code: `code.near` with `did_you_mean`,
`code.none` with nothing to choose from, `code.<feature>`, `code.<resource>` or `code.<state>`. What people typed is a
shortened parameter, escaped when shown. A limit's sentence is `user_limit.<what is counted>`.
"""

from collections import defaultdict
from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from common.amounts import show_params
from common.errors import FieldError, PlatformError
from common.text import shorten_text

FIELD_MESSAGES = {
    "archive_bad_name": _(
        "The code archive contains the path “%(name)s”, which leaves its directory. Pack the directory again "
        "with tessera."
    ),
    "archive_link": _("The link “%(name)s” in the code points outside the code. Remove the link or copy the file in."),
    "archive_ratio": _(
        "The code archive grows to more than %(max)s times its size when unpacked. Leave out files that are "
        "mostly empty."
    ),
    "archive_special": _(
        "The code archive contains “%(name)s”, which is not a file, a directory or a link. Leave it out."
    ),
    "archive_too_large": _(
        "The code archive is larger than %(max)s. Leave out data and results, for example with .gitignore."
    ),
    "archive_too_many": _(
        "The code archive contains more than %(max)s files. Leave some out, for example with .gitignore."
    ),
    "archive_too_many_links": _(
        "The code archive contains more than %(max)s links, or a very long one. Leave some out."
    ),
    "archive_twice": _("The code archive contains “%(name)s” twice. Pack the directory again with tessera."),
    "archive_unpacked": _(
        "The code is larger than %(max)s when unpacked. Leave out data and results, for example with .gitignore."
    ),
    "archive_unreadable": _("The code archive is damaged or not a tar.gz file. Pack the directory again with tessera."),
    "bad_characters": _("%(field)s contains the character %(character)s, which cannot be shown. Remove it."),
    "bad_cpu": _(
        "“%(got)s” is not a valid number of cores. Use a number such as 2 or 0.5, or thousandths such as 500m."
    ),
    "bad_duration": _("“%(got)s” is not a valid duration. Write it like 90m, 1h30m, 18h or 3d."),
    "bad_env_name": _(
        "“%(got)s” is not a valid variable name. Use letters, digits and underscores, and do not begin with a digit."
    ),
    "bad_gpu": _(
        "“%(got)s” is not a valid amount of GPU. Use 1 or 2 for whole cards, 1/4 or 10GB for a slice, H100:2 or "
        "H100/4 for a model."
    ),
    "bad_memory": _("“%(got)s” is not a valid amount of memory. Use a number and a unit, such as 16GB or 16GiB."),
    "bad_name": _("This name is not valid. Use 1 to %(max)s visible characters."),
    "bad_url": _(
        "This address is not valid. Use one that begins with http:// or https://, with up to %(max)s plain "
        "characters and without a user, password or #."
    ),
    "forbidden_address": _(
        "This address is in a private network or uses an unusual port, so it is not allowed. Use a public "
        "address, or ask an administrator to allow its network."
    ),
    "gpu_part_too_large": _("%(got)s is more than one card. Ask for a fraction below 1, or for whole cards such as 2."),
    "gpu_range": _(
        "“%(got)s” is a range, and each task has one amount of GPUs. Write one, such as 4 or 40GB; for more or fewer "
        "tasks, write nodes: 2..4."
    ),
    "gpu_several_slices": _(
        "“%(got)s” is several slices, and a task has one. Ask for one slice, or for more nodes, each with its own."
    ),
    "invalid": _("%(field)s is not valid. See the documentation of the job file."),
    "number_out_of_range": _("%(field)s is far out of range. Use a smaller number."),
    "out_of_range": _("%(field)s must be from %(min)s to %(max)s."),
    "outer_space": _("%(field)s begins or ends with a space. Remove the space."),
    "required": _("%(field)s is missing. Add it."),
    "reserved_name": _(
        "The variable %(name)s is set by the platform. Remove it, or set another one inside your command."
    ),
    "too_large": _("%(field)s is too large. The maximum is %(max)s."),
    "too_long": _("%(field)s is too long. Shorten it to at most %(max)s."),
    "too_many": _("%(field)s has %(got)s entries. Keep at most %(max)s."),
    "too_small": _("%(field)s is too small. The minimum is %(min)s."),
    "unit_missing": _("%(field)s has no unit. Add one, such as %(got)sGB."),
    "unknown_value": _("%(field)s cannot be “%(got)s”. Choose one of: %(allowed)s."),
    "unknown_value.near": _(
        "%(field)s cannot be “%(got)s”. Did you mean “%(did_you_mean)s”? Choose one of: %(allowed)s."
    ),
    "wrong_type": _("%(field)s must be %(expected)s, but it is %(got)s. Change the value; quotes turn it into text."),
}
ERROR_MESSAGES = {
    "changed_meanwhile": _(
        "This was changed after you read it. Read it again, then send your change with the new ETag if it still "
        "makes sense."
    ),
    "conflict": _("This conflicts with something that already exists. Check it and try again."),
    "idempotency_key_reused": _("This Idempotency-Key was already used for another request. Use a new key."),
    "impossible": _("This can never run here. Change the request."),
    "internal": _(
        "Something went wrong on our side. Try again. If it happens again, tell an administrator the request number."
    ),
    "invalid_input": _("Some values are not valid. The fields are named below."),
    "name_taken": _("This name is taken. Choose another."),
    "not_found": _("This does not exist, or you may not see it. Check the address and your team."),
    "not_permitted": _("You can see this, but you may not do that. Ask a lead of the team or an administrator."),
    "not_signed_in": _("You are not signed in. Sign in, or send a token."),
    "platform_busy": _(
        "The platform is busy with other requests, so nothing was done about this one. Try again in %(retry_after_s)s "
        "seconds."
    ),
    "platform_disk_full": _(
        "The platform's disk is full, so nothing new is accepted. What runs goes on. Delete files that are not needed "
        "any more, or ask an administrator for space, then try again."
    ),
    "range_outside": _("The range is outside the file, which has %(size)s bytes."),
    "stale_state": _("Someone else changed this a moment ago. Refresh and try again if it still makes sense."),
    "too_large": _("This is too large. Send less."),
    "too_many_requests": _("Too many requests. Wait %(retry_after_s)s seconds and try again."),
    "too_slow": _(
        "The body of this request stopped arriving: less than %(bytes)s bytes came in %(seconds)s seconds. Send it "
        "again, without a pause."
    ),
    "unavailable": _("A required service does not respond right now. Try again shortly."),
    "user_limit": _("Limit reached: %(used)s of %(limit)s in use. Stop something, or wait until something ends."),
}
KINDS = {
    "duration": _("a duration such as 18h"),
    "gpu_amount": _("an amount of GPU such as 1, 1/4 or 10GB"),
    "list": _("a list"),
    "map": _("a group of “key: value” lines"),
    "memory_amount": _("an amount of memory such as 16GB"),
    "nothing": _("empty"),
    "number": _("a number"),
    "something_else": _("something else"),
    "text": _("text"),
    "true_or_false": _("true or false"),
    "whole_number": _("a whole number"),
}


def format_field(error: FieldError, messages: Mapping) -> str:
    """Return the sentence for one field."""
    params = fill_gaps(error.params)
    if error.code == "wrong_type":
        params |= {key: str(KINDS.get(params[key], params[key])) for key in ("expected", "got")}
    about = error.pointer.strip("/").removesuffix("_guarantee").removesuffix("_limit")
    shown = fill_gaps(show_params(params, about) | {"field": field_name(error.pointer)})
    keys = [*(f"{error.code}.{name}" for name in _variants(error.params)), error.code, "invalid"]
    return str(next(messages[key] for key in keys if key in messages)) % shown


def format_error(error: PlatformError, messages: Mapping) -> str:
    """Return the sentence for an error."""
    what = f"{error.code}.{error.params.get('what')}"
    none = [f"{what}.none"] if error.params.get("limit") == 0 else []
    keys = [f"{error.code}.{error.params.get('state')}", *none, what, error.code, "internal"]
    return str(next(messages[key] for key in keys if key in messages)) % fill_gaps(show_params(error.params))


def fill_gaps(params: dict) -> dict:
    """Return a sentence's parameters with "?" for each that is missing."""
    return defaultdict(lambda: "?", params)


def field_name(pointer: str) -> str:
    """Return a JSON pointer as people write it: "/env/A~1B" is "env.A/B"."""
    parts = (part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
    return shorten_text(".".join(parts), 80) or str(_("The file"))


def _variants(params: dict) -> list[str]:
    near = ["near"] if params.get("did_you_mean") else []
    none = ["none"] if not params.get("largest", 1) or params.get("known") == "" else []
    return [*near, *none, *(params[key] for key in ("feature", "resource") if key in params)]
