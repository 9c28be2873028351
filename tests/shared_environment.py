"""The notebooks' environment that all tests of a run share: to install it takes each a minute or two."""

import fcntl
import os
from pathlib import Path

from notebooks.build_environment import prepare_environment
from notebooks.environment import environment_home, environment_path, read_state


def prepare_shared_environment() -> Path:
    """Return its place, where it is prepared from its lock first by whoever comes first."""
    data = Path(os.environ["TESSERA_DATA"]).with_name("shared-by-tests")
    environment_home(data).mkdir(mode=0o755, parents=True, exist_ok=True)
    with open(environment_home(data) / "lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another worker may be at it
        assert prepare_environment(data) == 0, read_state(data)
    return environment_path(data)
