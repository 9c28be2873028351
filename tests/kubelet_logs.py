"""What a kubelet and its engine do with the files of a container's log: write, rename, pack, remove."""

import gzip
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

KEPT = 5


class LogFolder:
    """clock: of the lines; each is a microsecond later than the one before, each file ten seconds later."""

    def __init__(self, pods: Path, task: str, install: str = "tessera", pod: str = "0b092da8-f74f"):
        self.top = pods / f"{install}-team-20000_t-{task}_{pod}"
        self.main = self.top / "main"
        self.main.mkdir(parents=True)
        self.clock = datetime.now(UTC)

    def write(self, text: str | bytes, stream: str = "stdout", tag: str = "F") -> None:
        """A line of the engine for each of the text's."""
        lines = (text.encode() if isinstance(text, str) else text).split(b"\n")
        with open(self.main / "0.log", "ab") as file:
            for line in lines:
                self.clock += timedelta(microseconds=1)
                stamp = self.clock.strftime("%Y-%m-%dT%H:%M:%S.%f123Z")
                file.write(f"{stamp} {stream} {tag} ".encode() + line + b"\n")

    def rotate(self) -> None:
        """As kubelet/logs/container_log_manager.go: remove what is too old, pack, rename, and begin anew."""
        rotated = sorted(self.main.glob("0.log.*"), key=lambda path: path.name.removesuffix(".gz"))
        for path in rotated[: max(len(rotated) - (KEPT - 2), 0)]:
            path.unlink()
            rotated.remove(path)
        for path in (path for path in rotated if path.suffix != ".gz"):
            with gzip.open(f"{path}.gz.tmp", "wb") as packed:
                packed.write(path.read_bytes())
            Path(f"{path}.gz.tmp").rename(f"{path}.gz")
            path.unlink()
        self.clock += timedelta(seconds=10)
        (self.main / "0.log").rename(self.main / f"0.log.{self.clock:%Y%m%d-%H%M%S}")
        (self.main / "0.log").touch()

    def remove(self) -> None:
        shutil.rmtree(self.top)
