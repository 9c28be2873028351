"""The agent's report loop."""

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agent.client import Away, Platform, Refused
from agent.gpu.cards import Cards
from agent.gpu.xid_errors import Errors
from agent.report import build_report
from agent.state import Identity, State

log = logging.getLogger("tessera.agent")

FIRST_S, LONGEST_S = 2.0, 300.0
"""Seconds of pause after the first failure, doubled for each further one."""
LEAST_S, MOST_S = 5.0, 600.0
"""Bounds of the seconds between two reports, whatever the platform asks for."""
JITTER = 0.2
"""Random part of a pause, so that a thousand agents do not report together."""


class NotEnrolled(Exception):
    """The agent has neither an identity nor an enrolment token."""


class Reporter:
    """Enrols and reports this machine.

    look: reads the cards. told: called with acknowledged ones. token: "" without one. say: builds a report, or None.
    """

    def __init__(
        self,
        platform: Platform,
        server: str,
        state: State,
        *,
        look: Callable[[], Cards],
        told: Callable[[Cards], object],
        token: Callable[[], str],
        say: Callable[[Cards], dict[str, Any]] | None = build_report,
    ):
        self.platform, self.server, self.state = platform, server, state
        self.look, self.told, self.token, self.say = look, told, token, say
        self.identity = state.identity(server)
        self._told: list[str] = []

    def report(self) -> float:
        """Report once; return seconds until the next. Raises Away, Refused, NotEnrolled."""
        if not self.identity.node:
            self.identity = self._enrol(self.identity)
        if self.say is None:
            return MOST_S
        seen = self.look()
        said = self.say(seen)
        try:
            answer = self.platform.report(self.identity.node, self.identity.key, said)
        except Refused as refused:
            if refused.status != 401 or not self.token():
                raise
            log.warning("%s Enrolling again.", refused)
            self.identity = self._enrol(self.state.new_identity(self.server))
            answer = self.platform.report(self.identity.node, self.identity.key, said)
        self._note(said, answer)
        self.told(seen)
        return min(max(float(answer["next_in_s"]), LEAST_S), MOST_S)

    def _enrol(self, identity: Identity) -> Identity:
        token = self.token()
        if not token:
            raise NotEnrolled("This agent is not enrolled. Ask an administrator for a token: tessera agent add NODE")
        enrolled = replace(identity, node=self.platform.enrol(token, identity.key))
        self.state.keep(enrolled)
        log.info("enrolled as the agent of %s", enrolled.node)
        return enrolled

    def _note(self, said: dict[str, Any], answer: dict[str, Any]) -> None:
        faults = [f"GPU {gpu['index']}: {gpu['fault']}" for gpu in said["gpus"] if gpu["fault"]]
        faults += [f"GPU {place['index']}: {place['why']}" for place in said["lost"]]
        told = [*faults, *(held["text"] for held in answer["held_back"])]
        for line in told:
            if line not in self._told:
                log.warning("%s", line)
        self._told = told


def follow(reporter: Reporter, errors: Errors, stop: threading.Event) -> None:
    """Report until `stop` is set, at once after a card's error."""
    failures, dice = 0, random.SystemRandom()
    while not stop.is_set():
        try:
            pause, failures = reporter.report(), 0
        except (Away, Refused, NotEnrolled) as error:
            failures += 1
            pause = max(back_off(failures), getattr(error, "retry_after_s", 0))
            log.warning("%s (next try in about %.0f s)", error, pause)
        reporter.state.note_alive()
        if not errors.is_listening:
            errors.listen()  # the driver may be back
        errors.wait(pause * dice.uniform(1 - JITTER, 1), stop)
    errors.close()


def back_off(failures: int) -> float:
    return min(FIRST_S * 2 ** min(failures - 1, 20), LONGEST_S)
