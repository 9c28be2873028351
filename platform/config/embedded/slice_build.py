"""`bin/slice build`, also run by `bin/start`: compile the slice library."""

import argparse
import os
import sys
import time
from pathlib import Path

from runtimes import slice_library
from runtimes.local.slices.driver import find_driver

ROOT = Path(__file__).resolve().parents[3]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="bin/slice", description="Build the library that keeps a task to its slice of a GPU's memory."
    )
    parser.add_argument("verb", choices=["build"])
    parser.add_argument("--data", default="", metavar="DIR", help="the platform's data directory (default .tessera)")
    options = parser.parse_args(arguments)
    called_from = Path(os.environ.get("TESSERA_CALLED_FROM", ROOT))
    library = slice_library.library_path((called_from / options.data).resolve() if options.data else ROOT / ".tessera")
    if slice_library.is_built(library):
        print(f"Built already: {library}")
        return 0
    began = time.monotonic()
    try:
        slice_library.build_library(library)
    except OSError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"Built in {time.monotonic() - began:.0f} s: {library}\nThe platform uses it from its next start on.")
    return 0


def is_wanted(data: Path) -> bool:
    """Whether a start should and can build it."""
    return (
        not os.environ.get("TESSERA_SLICE")
        and find_driver() is not None
        and slice_library.can_build()
        and not slice_library.is_built(slice_library.library_path(data))
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
