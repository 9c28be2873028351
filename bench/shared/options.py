"""What the benches of traces take on their command line alike."""

import argparse
from collections.abc import Callable, Iterable
from pathlib import Path

from bench.shared.rows import DATA


def parser_of(bench: str, holds: str) -> argparse.ArgumentParser:
    """With --csv and --data. holds: what has to be in the folder of the data."""
    parser = argparse.ArgumentParser(prog=f"bin/bench {bench}")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--data", type=Path, default=DATA, help=f"a folder with {holds} in it")
    return parser


def some_of(known: Iterable[str]) -> Callable[[str], list[str]]:
    """Reads names with commas between."""
    names = tuple(known)

    def read(text: str) -> list[str]:
        if unknown := set(text.split(",")) - set(names):
            words = f"{', '.join(sorted(unknown))}: not one of {', '.join(names)}"
            raise argparse.ArgumentTypeError(words)
        return text.split(",")

    return read
