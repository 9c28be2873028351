"""Simulate a scenario, a trace of jobs or what really happened with the real scheduling cycle and a virtual clock."""

import argparse
import csv
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from monitoring.history.file_format import read_history
from scheduler.simulation import scenario_file, trace_csv
from scheduler.simulation.history import SimulationHistory
from scheduler.simulation.impossible import find_impossible
from scheduler.simulation.report import COLUMNS, build_report, read_revision
from scheduler.simulation.scenario import Scenario, simulate_scenario
from scheduler.simulation.summary import build_rows, summarize
from scheduler.whatif import scenarios
from scheduler.whatif.comparison import compare
from scheduler.whatif.report import build_report as build_comparison
from scheduler.whatif.report import check_week, write_text
from scheduler.whatif.scenarios import read_scenario

FILES = (
    "A scenario is a .yaml or .yml file; anything else is read as a trace, which needs --nodes. --history plays what\n"
    "`tessera history export` wrote, and beside it what --what says.\n"
)
OF_FILES = ("nodes", "depth", "csv")
"""Options that do not go with --history."""


class Command(BaseCommand):
    help = __doc__ + "\n" + FILES + scenarios.__doc__ + scenario_file.SCENARIO_HELP + trace_csv.TRACE_HELP
    requires_system_checks = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        exact = {"formatter_class": argparse.RawTextHelpFormatter, "allow_abbrev": False}  # --trace is not --traceback
        return super().create_parser(prog_name, subcommand, **exact, **kwargs)

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file", type=Path, nargs="?", help="a scenario (YAML) or a trace (CSV, also gzipped)")
        parser.add_argument("--history", type=Path, help="what happened, from `tessera history export`")
        what = "a scenario beside the history as it was: words or a YAML file; may be said more than once"
        parser.add_argument("--what", action="append", default=[], metavar="CHANGES", help=what)
        parser.add_argument("--seeds", type=int, default=3, help="how often scenarios with chance are played (3)")
        parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same output (1)")
        parser.add_argument("--nodes", type=int, help="of a trace: how many machines")
        parser.add_argument("--gpus", type=int, default=8, help="of a trace: cards of each machine (8)")
        parser.add_argument("--depth", type=int, help="look only at so many of each class of priority, the oldest")
        parser.add_argument("--csv", type=Path, help="write bench,case,seed,policy,metric,value")
        parser.add_argument("--html", type=Path, help="write a report with plots, in one file without scripts")
        parser.add_argument("--week", type=int, default=1, help="which week the report shows card by card (1)")

    def handle(self, *args: Any, **options: Any) -> None:
        if (options["file"] is None) == (options["history"] is None):
            raise CommandError("name one file: a scenario or a trace, or a history by --history FILE")
        if options["history"]:
            return self._compare(options)
        if options["what"]:
            raise CommandError("--what changes a history: name it by --history FILE")
        self._simulate(options)

    def _compare(self, options: dict[str, Any]) -> None:
        """Play a history as it was and with each of the changes."""
        if given := [name for name in OF_FILES if options[name]]:
            raise CommandError(f"--{given[0]} is of scenarios and traces, not of a history")
        if options["seeds"] < 1:
            raise CommandError("--seeds is 1 or more")
        try:
            history = read_history(options["history"])
            check_week(history, options["week"])
            comparison = compare(history, [*map(read_scenario, options["what"])], options["seeds"], self._tell)
            for line in write_text(comparison):
                self.stdout.write(line)
            if path := options["html"]:
                path.write_text(build_comparison(comparison, read_revision(), options["week"]))
        except OSError as error:
            raise CommandError(f"{error.filename} cannot be opened: {error.strerror}") from None
        except ValueError as error:
            raise CommandError(str(error)) from None

    def _tell(self, name: str, done: int, of: int) -> None:
        self.stderr.write(f"{done} of {of} played: {name}")

    def _simulate(self, options: dict[str, Any]) -> None:
        try:
            scenario = self._load(options)
            if options["week"] < 1:
                raise ValueError("weeks are counted from 1")
        except OSError as error:
            raise CommandError(f"{error.filename} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise CommandError(str(error)) from None
        history = self._play(scenario)
        summary = summarize(scenario, history)
        self._print(scenario, summary)
        for jobs in find_impossible(scenario, history.first_start):
            others = f" and {jobs.count - 1} more alike" if jobs.count > 1 else ""
            self.stdout.write(f"Can never start: job {jobs.first} of {jobs.team}{others}: {jobs.why}")
        if path := options["csv"]:
            with path.open("w", newline="") as file:
                names = ("bench", "case", "seed", "policy", "metric", "value")
                csv.writer(file).writerows([names, *build_rows(scenario, summary)])
        if path := options["html"]:
            path.write_text(build_report(scenario, history, summary, read_revision(), options["week"]))

    def _load(self, options: dict[str, Any]) -> Scenario:
        file, seed, depth = options["file"], options["seed"], options["depth"]
        if file.suffix in (".yaml", ".yml"):
            return scenario_file.load_scenario(file, seed, depth=depth)
        if not options["nodes"]:
            raise ValueError("a trace needs --nodes")
        nodes, gpus = options["nodes"], options["gpus"]
        return scenario_file.load_trace_scenario(file, seed, nodes=nodes, gpus=gpus, depth=depth)

    def _play(self, scenario: Scenario) -> SimulationHistory:
        history = simulate_scenario(scenario, self._progress(scenario))
        self.stderr.write("")
        return history

    def _progress(self, scenario: Scenario) -> Callable[[float, int], None]:
        """Return a callback that overwrites one progress line."""
        shown = -1

        def show_progress(at: float, finished: int) -> None:
            nonlocal shown
            done = finished / max(len(scenario.jobs), 1)
            share = int(100 * (max(at / scenario.until, done) if isfinite(scenario.until) else done))
            if share > shown:
                shown = share
                line = f"\r{share:3} %  day {at / 86400:.1f}, {finished} of {len(scenario.jobs)} jobs done   "
                self.stderr.write(line, ending="")
                self.stderr.flush()

        return show_progress

    def _print(self, scenario: Scenario, summary: dict[str, dict[str, float]]) -> None:
        everybody = summary["all"]
        used, took = everybody["cards_in_use_pct"], everybody["virtual_makespan_s"] / 3600
        self.stdout.write(f"{scenario.name}, revision {read_revision()}, seed {scenario.seed}")
        self.stdout.write(f"{used:.1f} % of the cards in use over {took:.1f} hours")
        width = max(len("team"), *(len(who) for who in summary))
        self.stdout.write("  ".join(["team".ljust(width), *(title for title, _, _ in COLUMNS)]))
        for who, found in summary.items():
            cells = (f"{found[key] / unit:.1f}".rjust(len(title)) for title, key, unit in COLUMNS)
            self.stdout.write("  ".join([who.ljust(width), *cells]))
