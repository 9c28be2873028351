"""Plans of jobs as lines."""

from collections.abc import Iterable

from cli.failures import OK, USAGE, WAITS, field_of

MARKS = {"starts": "●", "waits": "◐", "never": "✕"}
EXITS = {"starts": OK, "waits": WAITS, "never": USAGE}


def format_plan(plan: dict) -> list[str]:
    refusal = plan["refusal"] or {"hints": []}
    return [
        f"{MARKS.get(plan['outcome'], '?')} {plan['text']}",
        *_listed("array", [plan["array"]["text"]] if plan.get("array") else []),
        *_listed("why", format_reasons(plan["reasons"])),
        *_listed("stops", _format_stops(plan)),
        *format_suggestions(plan),
        *_listed("try", (f"{field_of(hint['pointer'])}: {hint['value']}" for hint in refusal["hints"])),
    ]


def format_reasons(reasons: list[dict]) -> list[str]:
    """Return what holds for the whole job, and indented what follows from it. Codes are in the JSON."""
    return [f"{'  ' if number else ''}{reason['text']}" for number, reason in enumerate(reasons)]


def format_suggestions(answer: dict) -> list[str]:
    return _listed("sooner", (f"{lever['text']}: {lever['start_text']}" for lever in answer["levers"]))


def _format_stops(plan: dict) -> list[str]:
    """Say whether it may be stopped for others, and what the other choice would mean; older platforms do not tell."""
    other = plan.get("other_choice") or {"text": ""}
    return [text for text in (plan.get("preemptible_text", ""), other["text"]) if text]


def _listed(title: str, lines: Iterable[str]) -> list[str]:
    return [f"  {'' if number else title:<7} {line}" for number, line in enumerate(lines)]
