"""Sentences for errors, in the reader's language; each names the remedy.

Each app keeps the sentences of its own codes in `messages.py`. Here are the formatter and the sentences of codes that
several apps raise. `portal.wording.errors` merges the tables.

Tables are sorted; sentences are whole and have named parameters. Variants of a code: `code.near` with `did_you_mean`,
`code.none` with nothing to choose from, `code.<feature>`, `code.<resource>` or `code.<state>`. What people typed is a
shortened parameter, escaped when shown.
"""

from collections import defaultdict
from collections.abc import Mapping

from django.utils.translation import gettext_lazy as _

from common.amounts import show_params
from common.errors import FieldError, PlatformError
from common.text import shorten

FIELD_MESSAGES = {
    "archive_bad_name": _(
        "The code pack holds the path “%(name)s”, which leaves its directory. Pack the directory again with tessera."
    ),
    "archive_link": _("The link “%(name)s” in the code points outside of it. Remove the link or copy the file in."),
    "archive_ratio": _(
        "The code pack grows more than %(max)s times when it is unpacked. Leave out files that are mostly empty."
    ),
    "archive_special": _("The code pack holds “%(name)s”, which is neither file, directory nor link. Leave it out."),
    "archive_too_large": _(
        "The code pack is larger than %(max)s. Leave out data and results, for example by .gitignore."
    ),
    "archive_too_many": _("The code pack holds more than %(max)s files. Leave some out, for example by .gitignore."),
    "archive_too_many_links": _("The code pack holds more than %(max)s links, or a very long one. Leave some out."),
    "archive_twice": _("The code pack holds “%(name)s” twice. Pack the directory again with tessera."),
    "archive_unpacked": _(
        "The code is larger than %(max)s when unpacked. Leave out data and results, for example by .gitignore."
    ),
    "archive_unreadable": _("The code pack is damaged or no tar.gz file. Pack the directory again with tessera."),
    "bad_characters": _("%(field)s holds the character %(character)s, which cannot be shown. Remove it."),
    "bad_cpu": _("“%(got)s” is no number of cores. Write a number such as 2 or 0.5, or thousandths such as 500m."),
    "bad_duration": _("“%(got)s” is no length of time. Write it like 90m, 1h30m, 18h or 3d."),
    "bad_gpu": _(
        "“%(got)s” is no amount of GPU. Write 1 or 2 for whole cards, 1/4 or 10GB for a slice, H100:2 or H100/4 "
        "for a model."
    ),
    "bad_memory": _("“%(got)s” is no amount of memory. Write a number and a unit, such as 16GB or 16GiB."),
    "bad_name": _("This cannot be the name. Write 1 to %(max)s visible characters."),
    "bad_url": _(
        "This is no address that can be called. Write one that begins with http:// or https://, of up to %(max)s plain "
        "characters, without a user, password or #."
    ),
    "forbidden_address": _(
        "This address lies inside a private network or uses an unusual port, so it may not be called. "
        "Use a public one, or ask an administrator to allow its network."
    ),
    "gpu_part_too_large": _("%(got)s is more than one card. Ask for a part below 1, or for whole cards such as 2."),
    "invalid": _("%(field)s cannot be used as it is. Check it against the documentation of the job file."),
    "not_supported_yet": _("“%(key)s” belongs to the job file, but is not supported by this version. Leave it out."),
    "not_supported_yet.code_from_git": _(
        "Code from a repository is not supported by this version. Clone it, and write a dot for its directory."
    ),
    "not_supported_yet.gpu_range": _(
        "A range of GPUs (“%(key)s”) is not supported by this version. Write one amount, such as 4 or 40GB."
    ),
    "not_supported_yet.gpu_several_slices": _(
        "Several slices in one task (“%(key)s”) are not supported by this version. Ask for one slice, or for more"
        " nodes."
    ),
    "number_out_of_range": _("%(field)s is a number far out of range. Write a smaller one."),
    "out_of_range": _("%(field)s must be from %(min)s to %(max)s. Choose a value between them."),
    "outer_space": _("%(field)s begins or ends with a space. Remove the space."),
    "required": _("%(field)s is missing. Add it."),
    "too_large": _("%(field)s is too large. The most is %(max)s."),
    "too_long": _("%(field)s is too long. Shorten it to %(max)s at most."),
    "too_many": _("%(field)s has %(got)s entries. Keep %(max)s at most."),
    "too_small": _("%(field)s is too small. The least is %(min)s."),
    "unit_missing": _("%(field)s is %(got)s of what? Add a unit, such as %(got)sGB."),
    "unknown_value": _("%(field)s cannot be “%(got)s”. Choose one of: %(allowed)s."),
    "unknown_value.near": _(
        "%(field)s cannot be “%(got)s”. Did you mean “%(did_you_mean)s”? Choose one of: %(allowed)s."
    ),
    "wrong_type": _("%(field)s must be %(expected)s, but it is %(got)s. Change the value; quotes make a text of it."),
}
ERROR_MESSAGES = {
    "changed_meanwhile": _(
        "It was changed since you looked. Look again, and send your change with the new ETag if it still makes sense."
    ),
    "conflict": _("This clashes with something that is there already. Look at it and try again."),
    "idempotency_key_reused": _("This Idempotency-Key came with another request before. Use a new key."),
    "impossible": _("This could never run here. Change what it asks for."),
    "internal": _(
        "Something went wrong on our side. Try again; if it stays, tell an administrator the request number."
    ),
    "invalid_input": _("Some of what was sent cannot be used. The fields are named below."),
    "name_taken": _("This name is taken. Choose another."),
    "not_found": _("There is no such thing, or none that you may see. Check the address and your team."),
    "not_permitted": _("You may see this, but not do that to it. Ask a lead of the team or an administrator."),
    "not_signed_in": _("You are not signed in. Sign in, or send a token."),
    "range_outside": _("The range lies outside the file, which has %(size)s bytes."),
    "stale_state": _(
        "Somebody else changed this a moment ago. Look again and repeat what you wanted, if it still makes sense."
    ),
    "too_large": _("This is larger than may be sent. Send less."),
    "too_many_requests": _("Too many requests in a short time. Wait %(retry_after_s)s seconds and try again."),
    "unavailable": _("Something that is needed does not answer at the moment. Try again shortly."),
    "user_limit": _(
        "You are at your limit: %(used)s of %(limit)s. Stop something or wait for it to end, or ask a lead for more."
    ),
}
KINDS = {
    "duration": _("a length of time such as 18h"),
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
    keys = [f"{error.code}.{error.params.get('state')}", error.code, "internal"]
    return str(next(messages[key] for key in keys if key in messages)) % fill_gaps(show_params(error.params))


def fill_gaps(params: dict) -> dict:
    """Return a sentence's parameters with "?" for each that is missing."""
    return defaultdict(lambda: "?", params)


def field_name(pointer: str) -> str:
    """Return a JSON pointer as people write it: "/env/A~1B" is "env.A/B"."""
    parts = (part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
    return shorten(".".join(parts), 80) or str(_("The file"))


def _variants(params: dict) -> list[str]:
    near = ["near"] if params.get("did_you_mean") else []
    none = ["none"] if not params.get("largest", 1) or params.get("known") == "" else []
    return [*near, *none, *(params[key] for key in ("feature", "resource") if key in params)]
