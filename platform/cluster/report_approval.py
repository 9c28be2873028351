"""Comparison of agents' reports with what an admin approved, as pure functions.

A report never raises capacity: a new, larger or different card counts as approved before, or not at all.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from common.errors import FieldError, InvalidInput
from common.resources import is_instance
from runtimes.contract.node import GpuView, HcaView, NumaView
from runtimes.gpu_sharing import MIG, MIG_WORDS, SIMULATED, ProbeFacts, choose_mode

CAPACITY = ("model", "product", "memory_mib", "reserved_mib")
"""The fields of a card that an admin approves."""
SIMULATED_WORDS = "The agent of this machine was started with simulated cards."


@dataclass(frozen=True)
class Reported:
    """The usable part of a report, as in NodeView."""

    gpus: tuple[GpuView, ...] = ()
    links: tuple[tuple[str, ...], ...] = ()
    pcie: tuple[tuple[str, ...], ...] = ()
    numa: tuple[NumaView, ...] = ()
    facts: dict[str, str] = field(default_factory=dict)
    hcas: tuple[HcaView, ...] = ()


@dataclass(frozen=True)
class HeldBack:
    """A card that does not count as reported.

    code: new_card, more_memory, other_model: an admin may approve it; card_elsewhere: another machine must lose it
    first.
    """

    uuid: str
    index: int
    code: str
    params: dict[str, Any]


def check_report(report: Mapping[str, Any]) -> None:
    """Raise InvalidInput if a report contradicts itself."""
    gpus, errors = report["gpus"], []
    for name in ("uuid", "index"):
        seen: set[Any] = set()
        for place, gpu in enumerate(gpus):
            if gpu[name] in seen:
                errors.append(FieldError(f"/gpus/{place}/{name}", "card_twice", {"got": str(gpu[name])}))
            seen.add(gpu[name])
    for name in ("links", "pcie"):
        rows = report[name]
        if rows and {len(rows), *map(len, rows)} != {len(gpus)}:
            errors.append(FieldError(f"/{name}", "not_square", {"cards": len(gpus)}))
    for place, hca in enumerate(report.get("hcas", ())):
        if len(hca["near"]) != len(gpus):
            errors.append(FieldError(f"/hcas/{place}/near", "not_one_per_card", {"cards": len(gpus)}))
    if errors:
        raise InvalidInput(errors)


def list_held_back(
    report: Mapping[str, Any], approved: Mapping[str, Any], elsewhere: Mapping[str, str]
) -> list[HeldBack]:
    """List the cards that exceed approval. elsewhere: {uuid: machine}."""
    found = (_judge(gpu, approved.get(gpu["uuid"]), elsewhere.get(gpu["uuid"])) for gpu in _offered(report))
    return [one for one in found if one is not None]


def fingerprint_report(report: Mapping[str, Any], held_back: Iterable[HeldBack]) -> str:
    """Return a fingerprint of what waits for approval."""
    waiting = {one.uuid for one in held_back if one.code != "card_elsewhere"}
    values = [[gpu["uuid"], *read_capacity(gpu).values()] for gpu in _offered(report) if gpu["uuid"] in waiting]
    return hashlib.sha256(json.dumps(sorted(values)).encode()).hexdigest()[:16] if values else ""


def read_capacity(gpu: Mapping[str, Any]) -> dict[str, Any]:
    return {name: gpu[name] for name in CAPACITY}


def build_reported(report: Mapping[str, Any], approved: Mapping[str, Any], elsewhere: Mapping[str, str]) -> Reported:
    """Return the approved cards, none larger than approved."""
    if not report:
        return Reported()
    places = [
        place
        for place, gpu in enumerate(report["gpus"])
        if not gpu["mig"] and gpu["uuid"] in approved and gpu["uuid"] not in elsewhere
    ]
    gpus = (_as_approved(report["gpus"][place], approved) for place in places)
    return Reported(
        gpus=tuple(_view(gpu, report) for gpu in gpus),
        links=_part(report["links"], places),
        pcie=_part(report["pcie"], places),
        numa=tuple(NumaView(n["id"], tuple(n["cpus"]), n["memory_mib"], n["socket"]) for n in report["host"]["numa"]),
        facts=_facts(report),
        hcas=tuple(_view_hca(hca, places) for hca in report.get("hcas", ())),
    )


def _view_hca(hca: Mapping[str, Any], places: list[int]) -> HcaView:
    told = {name: hca[name] for name in ("name", "bus", "numa", "link", "rate_gbps", "active")}
    return HcaView(**told, near=tuple(hca["near"][place] for place in places))


def _facts(report: Mapping[str, Any]) -> dict[str, str]:
    told = {"gpu_pin": report.get("gpu_pin"), "cpu_pinning": report["host"].get("cpu_pinning")}
    found = {"driver": report["driver"] or "none", "kernel": report["host"]["kernel"], "agent": report["agent"]}
    return found | {name: words for name, words in told.items() if words}


def _offered(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List cards to place tasks on: not those cut by MIG."""
    return [gpu for gpu in report.get("gpus", ()) if not gpu["mig"]]


def _judge(gpu: Mapping[str, Any], known: Mapping[str, Any] | None, machine: str | None) -> HeldBack | None:
    def held(code: str, **params: Any) -> HeldBack:
        return HeldBack(gpu["uuid"], gpu["index"], code, params)

    if machine is not None:
        return held("card_elsewhere", node=machine)
    if known is None:
        return held("new_card", model=gpu["model"], memory_mib=_sellable(gpu))
    if gpu["model"] != known["model"] or gpu["product"] != known["product"]:
        return held("other_model", model=gpu["product"], approved=known["product"])
    if _sellable(gpu) > _sellable(known):
        return held("more_memory", memory_mib=_sellable(gpu), approved_mib=_sellable(known))
    return None


def _sellable(gpu: Mapping[str, Any]) -> int:
    return gpu["memory_mib"] - gpu["reserved_mib"]


def _as_approved(gpu: dict[str, Any], approved: Mapping[str, Any]) -> dict[str, Any]:
    known = approved[gpu["uuid"]]
    return gpu if _judge(gpu, known, None) is None else {**gpu, **known}


def _mode(report: Mapping[str, Any], gpu: Mapping[str, Any]) -> tuple[str, str]:
    if report["simulated"]:
        return SIMULATED, SIMULATED_WORDS
    if is_instance(gpu["product"]):
        return MIG, MIG_WORDS
    if told := report.get("enforcement"):
        return told["mode"], told["evidence"]
    return choose_mode(ProbeFacts(driver=report["driver"]))


def _view(gpu: Mapping[str, Any], report: Mapping[str, Any]) -> GpuView:
    names, (mode, evidence) = ("uuid", "index", *CAPACITY, "numa", "bus", "fault"), _mode(report, gpu)
    told = {name: gpu[name] for name in names}
    return GpuView(**told, simulated=report["simulated"], mode=mode, evidence=evidence)


def _part(rows: list[list[str]], places: list[int]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(rows[i][j] for j in places) for i in places) if rows else ()
