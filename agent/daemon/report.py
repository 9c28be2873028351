"""The agent's report of its machine, one JSON object."""

import os
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

from agent import host
from agent.gpu.cards import Card, Cards, Lost, NoAnswer, read_cards
from agent.gpu.enforcement import Enforcement
from agent.gpu.links import Matrix
from agent.gpu.samples import report_samples
from agent.rdma import list_hcas
from agent.state import SeenCards

VERSION = "0.1.0"
LONGEST = 300
"""Longest sentence that the platform accepts, in characters."""


LOST = "The driver lost the card: {why}."


def observe_cards(memory: SeenCards, sys_root: str = "/sys") -> Cards:
    """Read cards and HCAs; fill in lost cards, or all if the driver fails, from memory with a fault."""
    try:
        seen = read_cards(sys_root) or Cards((), (), (), "")
    except NoAnswer as error:
        everywhere = tuple(Lost(index, str(error)) for index in sorted(memory.cards)) or (Lost(0, str(error)),)
        seen = Cards((), (), (), "", everywhere)
    memory.remember(seen.cards, {place.index for place in seen.lost})
    present = {card.uuid for card in seen.cards}
    named = {place: card for place in seen.lost if (card := memory.cards.get(place.index)) and card.uuid not in present}
    known = {
        part.uuid: replace(part, fault=LOST.format(why=place.why))
        for place, card in named.items()
        for part in (card, *memory.instances_of(card))
    }
    cards = sorted([*seen.cards, *known.values()], key=lambda card: card.index)
    links, pcie = (_widen(rows, seen.cards, cards) for rows in (seen.links, seen.pcie))
    lost = tuple(place for place in seen.lost if place not in named)
    told = tuple(replace(card, fault=card.fault or memory.fault_of(card)) for card in cards)
    hcas = list_hcas([(card.bus, card.numa) for card in told], sys_root)
    return Cards(told, links, pcie, seen.driver, lost, hcas)


def build_report(
    seen: Cards,
    *,
    simulated: bool = False,
    enforcement: Enforcement | None = None,
    gpu_pin: str = "",
    cores: str = "",
    metrics_port: int = 0,
) -> dict[str, Any]:
    """Build the report. gpu_pin: how containers get cards. cores: CPU pinning. metrics_port: for Prometheus."""
    return {
        "agent": VERSION,
        "host": {
            "boot_id": host.read_boot_id(),
            "kernel": host.read_kernel_release(),
            "cpu_milli": host.read_cpu_milli(len(os.sched_getaffinity(0))),
            "memory_mib": host.read_memory_mib(),
            "numa": [asdict(node) for node in host.list_numa()],
            "cpu_pinning": cores,
        },
        "driver": seen.driver,
        "simulated": simulated,
        "gpus": [{**asdict(card), "fault": card.fault[:LONGEST]} for card in seen.cards],
        "links": seen.links,
        "pcie": seen.pcie,
        "hcas": [asdict(hca) for hca in seen.hcas],
        "lost": [{"index": place.index, "why": place.why[:LONGEST]} for place in seen.lost],
        "samples": report_samples(),
        "enforcement": asdict(enforcement) if enforcement and not simulated else None,
        "gpu_pin": gpu_pin,
        "metrics_port": metrics_port,
    }


def _widen(rows: Matrix, seen: Iterable[Card], cards: list[Card]) -> Matrix:
    place = {card.uuid: number for number, card in enumerate(seen)}

    def word(one: Card, two: Card) -> str:
        if one is two:
            return "X"
        return rows[place[one.uuid]][place[two.uuid]] if {one.uuid, two.uuid} <= place.keys() else "SYS"

    return tuple(tuple(word(one, two) for two in cards) for one in cards)
