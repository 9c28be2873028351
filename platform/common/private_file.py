"""Files that only the account of the platform can read."""

import os
from pathlib import Path
from typing import IO, Any


def create_private_file(path: Path, mode: str = "x") -> IO[Any]:
    """Create and open a file. mode: "x" for text, "xb" for bytes. Raises FileExistsError."""
    return open(path, mode, opener=lambda name, flags: os.open(name, flags, 0o600))
