"""bin/check-gpu: try on a real NVIDIA card what nothing else can show; a table, and a JSON beside it.

bin/check-gpu                          all that fits into ten minutes
bin/check-gpu --only mode,runtime12    some of it
bin/check-gpu --download DIR           fetch what it installs, for a machine without a network
bin/check-gpu --wheels DIR             take it from there
"""

import argparse
import json
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from bench.hardware.checks import CHECKS, Check, Wrong
from bench.hardware.lab import Broken, Lab, NotHere, build_library

ROOT = Path(__file__).resolve().parents[2]
GOOD, BAD, LEFT_OUT = "pass", "FAIL", "not run"
BY_HAND = (
    "By hand, on a cluster with such a card: environment of pod and device plugin (containerd, CRI-O), the driver's "
    "own memory limits (r615), MPS, HAMi-core, CDI by NRI, Topology Manager with our resources, balloons."
)


@dataclass(frozen=True)
class Line:
    name: str
    title: str
    result: str
    words: str
    took_s: float


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    if options.download:
        return download(options.download, options.only)
    root = Path(tempfile.mkdtemp(prefix="tessera-check-gpu-"))
    root.chmod(0o755)
    lab = None
    try:
        library = options.library or build_library(root)
        lab = Lab(root, library, wheels=options.wheels, ends_at=time.monotonic() + 60 * options.minutes)
        lines = [run(check, lab) for check in CHECKS if not options.only or check.name in options.only]
        write(lab, lines, options.json)
        return 1 if any(line.result == BAD for line in lines) else 0
    except (NotHere, OSError) as missing:
        print(missing, file=sys.stderr)
        return 2
    finally:
        if lab:
            lab.close()
        shutil.rmtree(root, ignore_errors=True)


def parse(arguments: list[str]) -> argparse.Namespace:
    summary, _, examples = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="bin/check-gpu", description=summary, epilog=examples, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", type=names, default=(), metavar="NAMES", help=", ".join(c.name for c in CHECKS))
    parser.add_argument("--minutes", type=float, default=10, help="no check begins after that (default 10)")
    parser.add_argument("--wheels", type=Path, metavar="DIR", help="install from this folder, without a network")
    parser.add_argument("--download", type=Path, metavar="DIR", help="fetch all that would be installed, and stop")
    parser.add_argument("--library", type=Path, metavar="DIR", help="the built slice library (default: build it now)")
    parser.add_argument("--json", type=Path, default=Path("check-gpu.json"), metavar="FILE", help="the same as JSON")
    return parser.parse_args(arguments)


def names(text: str) -> tuple[str, ...]:
    wanted, known = tuple(text.split(",")), {check.name for check in CHECKS}
    if unknown := set(wanted) - known:
        raise argparse.ArgumentTypeError(
            f"no check is called {', '.join(sorted(unknown))}; there are {', '.join(known)}"
        )
    return wanted


def download(folder: Path, only: tuple[str, ...]) -> int:
    """One call for each environment: together their versions would exclude each other."""
    groups = {name: packages for check in CHECKS if not only or check.name in only for name, packages in check.packages}
    fetch = [sys.executable, "-m", "pip", "download", "--only-binary", ":all:", "-q", "-d", str(folder)]
    wanted = [["-r", str(ROOT / "requirements.txt"), "--no-deps"], *map(list, groups.values())]
    for packages in wanted:
        print(f"Fetching {' '.join(packages)} ...", flush=True)
        if (status := subprocess.run([*fetch, *packages], check=False).returncode) != 0:
            return status
    return 0


def run(check: Check, lab: Lab) -> Line:
    began = time.monotonic()
    try:
        lab.left_s()
        result, words = GOOD, check.run(lab)
    except NotHere as missing:
        result, words = LEFT_OUT, str(missing)
    except (Wrong, Broken, OSError, subprocess.SubprocessError) as wrong:
        result, words = BAD, str(wrong)
    line = Line(check.name, check.title, result, words, round(time.monotonic() - began, 1))
    print(f"{line.result:8}{line.title:44}{line.took_s:7.1f} s  {line.words}", flush=True)
    return line


def write(lab: Lab, lines: list[Line], path: Path) -> None:
    about = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cards": [asdict(card) for card in lab.cards],
        "driver": lab.node.facts.get("driver", ""),
        "kernel": platform.release(),
        "isolation": lab.node.facts.get("isolation", ""),
    }
    path.write_text(json.dumps({**about, "checks": [asdict(line) for line in lines]}, indent=1) + "\n")
    count = {result: sum(line.result == result for line in lines) for result in (GOOD, BAD, LEFT_OUT)}
    print(f"\n{count[GOOD]} passed, {count[BAD]} failed, {count[LEFT_OUT]} not run. {path}\n{BY_HAND}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
