"""The agent's report loop."""

import logging
import random
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agent.client import Platform, PlatformUnavailable, Refused
from agent.gpu.cards import Cards
from agent.gpu.xid_errors import XidListener
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

    on_acknowledged: called with reported cards. read_token: "" without one. build_report: None to report nothing.
    """

    def __init__(
        self,
        platform: Platform,
        server: str,
        state: State,
        *,
        read_cards: Callable[[], Cards],
        on_acknowledged: Callable[[Cards], object],
        read_token: Callable[[], str],
        build_report: Callable[[Cards], dict[str, Any]] | None,
    ):
        self.platform, self.server, self.state = platform, server, state
        self.read_cards, self.on_acknowledged = read_cards, on_acknowledged
        self.read_token, self.build_report = read_token, build_report
        self.identity = state.load_identity(server)
        self._logged: list[str] = []

    def report(self) -> float:
        """Report once; return seconds until the next. Raises PlatformUnavailable, Refused, NotEnrolled."""
        # 1. Enrol, the first time.
        if not self.identity.node:
            self.identity = self._enrol(self.identity)
        if self.build_report is None:
            return MOST_S
        # 2. Read the cards and send the report.
        seen = self.read_cards()
        report = self.build_report(seen)
        answer = self._send(report)
        # 3. Log what is wrong, once, and go on with the acknowledged cards.
        self._log_faults(report, answer)
        self.on_acknowledged(seen)
        return min(max(float(answer["next_in_s"]), LEAST_S), MOST_S)

    def _send(self, report: dict[str, Any]) -> dict[str, Any]:
        """Send a report; enrol again if the key is refused and there is a token."""
        try:
            return self.platform.report(self.identity.node, self.identity.key, report)
        except Refused as refused:
            if refused.status != 401 or not self.read_token():
                raise
            log.warning("%s Enrolling again.", refused)
        self.identity = self._enrol(self.state.new_identity(self.server))
        return self.platform.report(self.identity.node, self.identity.key, report)

    def _enrol(self, identity: Identity) -> Identity:
        token = self.read_token()
        if not token:
            raise NotEnrolled("This agent is not enrolled. Ask an administrator for a token: tessera agent add NODE")
        enrolled = replace(identity, node=self.platform.enrol(token, identity.key))
        self.state.save_identity(enrolled)
        log.info("enrolled as the agent of %s", enrolled.node)
        return enrolled

    def _log_faults(self, report: dict[str, Any], answer: dict[str, Any]) -> None:
        faults = [f"GPU {gpu['index']}: {gpu['fault']}" for gpu in report["gpus"] if gpu["fault"]]
        faults += [f"GPU {place['index']}: {place['why']}" for place in report["lost"]]
        lines = [*faults, *(held["text"] for held in answer["held_back"])]
        for line in lines:
            if line not in self._logged:
                log.warning("%s", line)
        self._logged = lines


def run_report_loop(reporter: Reporter, errors: XidListener, stop: threading.Event) -> None:
    """Report until `stop` is set, at once after a card's error."""
    failures, dice = 0, random.SystemRandom()
    while not stop.is_set():
        # 1. Report, or find how long to wait after a failure.
        try:
            pause, failures = reporter.report(), 0
        except (PlatformUnavailable, Refused, NotEnrolled) as error:
            failures += 1
            pause = max(compute_backoff(failures), getattr(error, "retry_after_s", 0))
            log.warning("%s (next try in about %.0f s)", error, pause)
        # 2. Touch the file that shows that the loop runs.
        reporter.state.touch_heartbeat()
        # 3. Wait, with the driver's errors; the driver may be back.
        if not errors.is_listening:
            errors.listen()
        errors.wait(pause * dice.uniform(1 - JITTER, 1), stop)
    errors.close()


def compute_backoff(failures: int) -> float:
    """Return the seconds of pause after so many failures in a row."""
    return min(FIRST_S * 2 ** min(failures - 1, 20), LONGEST_S)
