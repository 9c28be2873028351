"""The first process of a container, under each shell that images have, in a process namespace of its own."""

import io
import os
import shutil
import signal
import subprocess
import tarfile
import time
from pathlib import Path

import pytest

from runtimes.kubernetes.pods.manifest import SUPERVISOR
from tests.runtimes.worlds import wait_for

SHELLS = [shell for shell in (["dash"], ["bash", "--posix"], ["busybox", "sh"]) if shutil.which(shell[0])]
APART = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child=KILL"]


def may_unshare() -> bool:
    return not subprocess.run([*APART, "true"], capture_output=True).returncode if shutil.which("unshare") else False


pytestmark = pytest.mark.skipif(not may_unshare(), reason="needs the right to make process namespaces")


@pytest.fixture(params=SHELLS, ids=lambda shell: shell[0])
def box(request, tmp_path):
    box = Box(request.param, tmp_path)
    yield box
    box.end()


class Box:
    """A container, as far as the supervisor sees one."""

    def __init__(self, shell: list[str], folder: Path):
        self.shell, self.folder, self.message, self.out = shell, folder, folder / "message", folder / "out"
        self.program: subprocess.Popen | None = None

    def start(
        self, run, *, most=0, grace=5, signal=0, save=0, saves_in="", cwd="work", needs="", code="", links=(), **env
    ):
        numbers = [str(each) for each in (most, grace, signal, save)]
        saves = str(self.folder / saves_in) if saves_in else ""
        command = [*APART, *self.shell, "-c", SUPERVISOR, "tessera", run, str(self.folder / cwd), *numbers, saves]
        files = [str(each) for each in (self.message, needs, self.folder / "work", code, *links)]
        env |= {"PATH": os.environ["PATH"], "HOME": str(self.folder / "home"), "TMPDIR": str(self.folder / "tmp")}
        with open(self.out, "wb") as out:
            self.program = subprocess.Popen([*command, *files], env=env, stdout=out, stderr=out)
        return self

    def wait(self) -> int:
        return self.program.wait(20)

    def says(self, text: str) -> bool:
        return text in self.out.read_text()

    def term(self) -> None:
        """As the kubelet does: to the container's first process, that is the child of unshare."""
        children = Path(f"/proc/{self.program.pid}/task/{self.program.pid}/children").read_text().split()
        os.kill(int(children[0]), signal.SIGTERM)

    def told(self) -> str:
        return self.message.read_text().strip()

    def end(self) -> None:
        if self.program is not None and self.program.poll() is None:
            self.program.kill()
            self.program.wait(10)


def saver(then: str) -> str:
    return f"trap 'mkdir -p ckpt; echo 1 > ckpt/step; {then}' USR1; echo listens; while :; do sleep 0.1; done"


def test_the_platforms_tools_come_after_the_images_and_the_tasks_own(box):
    run = '[ "${PATH%:*}:/tessera/tools" = "$PATH" ] && [ "$PYTHONPATH" = "$WANTED" ]'
    assert box.start(run, WANTED="/tessera/tools").wait() == 0
    assert box.start(run, PYTHONPATH="/own", WANTED="/own:/tessera/tools").wait() == 0


def test_the_exit_code_is_the_tasks_own(box):
    assert box.start("exit 3").wait() == 3
    assert not box.message.exists()


def test_a_task_works_where_it_is_told(box):
    box.start('pwd; echo "$0"', cwd="work/src").wait()
    assert box.says(f"{box.folder}/work/src")


def test_a_stop_reaches_everybody(box):
    box.start("(trap '' HUP; sleep 60) & echo begun; sleep 60; true")
    wait_for(lambda: box.says("begun"))
    box.term()
    assert (box.wait(), box.told()) == (143, "tessera cause=stopped saved=")


def test_a_stop_asks_for_a_checkpoint_first(box):
    box.start(saver("exit 0"), signal=signal.SIGUSR1, save=20, saves_in="work/ckpt")
    wait_for(lambda: box.says("listens"))
    box.term()
    assert box.wait() == 0
    assert box.told() == f"tessera cause=stopped saved={int((box.folder / 'work/ckpt/step').stat().st_mtime)}"


def test_who_is_killed_within_two_seconds_was_not_asked(box):
    box.start(saver(":"), signal=signal.SIGUSR1, save=20, saves_in="work/ckpt")
    wait_for(lambda: box.says("listens"))
    box.term()
    time.sleep(2)
    assert not (box.folder / "work/ckpt").exists()


def test_who_goes_on_after_its_checkpoint_is_ended(box):
    box.start(saver(":"), signal=signal.SIGUSR1, save=1, saves_in="work/ckpt")
    wait_for(lambda: box.says("listens"))
    box.term()
    assert box.wait() == 143


def test_who_does_not_listen_is_not_killed_by_the_question(box):
    box.start("trap 'echo bye; exit 4' TERM; echo begun; while :; do sleep 0.1; done", signal=signal.SIGUSR1, save=5)
    wait_for(lambda: box.says("begun"))
    box.term()
    assert box.wait() == 4 and box.says("bye")


def test_time_is_up(box):
    box.start("sleep 60; true", most=1)
    assert (box.wait(), box.told()) == (143, "tessera cause=time_limit saved=")


def test_who_ignores_the_end_of_its_time_is_killed_when_its_grace_is_over(box):
    box.start("trap '' TERM; while :; do sleep 0.1; done", most=1, grace=1)
    assert (box.wait(), box.told()) == (137, "tessera cause=time_limit saved=")


def test_a_place_that_cannot_be_is_said(box):
    (box.folder / "work").write_text("a file")
    assert box.start("true").wait() == 1
    assert box.told() == "tessera cause=start_failed saved="


@pytest.mark.parametrize(
    "given", [{}, {"TESSERA_GPU_3": "GPU-b"}, {"TESSERA_GPU_3": "GPU-a", "TESSERA_SLICE_BY": "hami"}]
)
def test_without_what_its_node_promised_nothing_starts(box, given):
    promised = "TESSERA_GPU_3=GPU-a TESSERA_SLICE_BY=slice"
    assert box.start("echo it runs", TESSERA_PROMISED=promised, **given).wait() == 1
    assert box.told() == "tessera cause=start_failed saved=" and not box.says("it runs")
    assert box.says("The node did not do what its agent said of its cards: TESSERA_")


def test_with_what_its_node_promised_it_starts(box):
    given = {"TESSERA_GPU_3": "GPU-a", "TESSERA_SLICE_BY": "slice"}
    promised = "TESSERA_GPU_3=GPU-a TESSERA_SLICE_BY=slice"
    assert box.start("exit 0", TESSERA_PROMISED=promised, **given).wait() == 0


def pack(path: Path, **files: str) -> Path:
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(name.replace("__", "/"))
            member.size, member.uid, member.mode = len(text), 4711, 0o644
            archive.addfile(member, io.BytesIO(text.encode()))
    return path


def test_code_is_unpacked_before_the_task_begins(box):
    code = pack(box.folder / "code.tar.gz", src__train="learn")
    assert box.start("cat train; stat -c %u train", cwd="work/src", code=code).wait() == 0
    assert box.out.read_text() == f"learn{os.getuid()}\n"


def test_code_that_is_no_archive_is_said(box):
    (box.folder / "code.tar.gz").write_text("no archive")
    assert box.start("echo ran", code=box.folder / "code.tar.gz").wait() == 1
    assert box.told() == "tessera cause=start_failed saved=" and box.says("could not be unpacked")
    assert not box.says("ran")


def link(box, source: str, target: str, umask: str = "022") -> list:
    return [umask, box.folder / source, box.folder / source, box.folder / "work" / target]


def test_data_is_made_and_linked_where_the_job_wants_it(box):
    links = [*link(box, "home/sets/a b", "data/in"), *link(box, "team/out", "out", "007")]
    assert box.start('echo x > data/in/file; echo "$(stat -c %a out/)"', links=links).wait() == 0
    assert (box.folder / "home/sets/a b/file").read_text() == "x\n" and box.says("770")


def test_data_takes_the_place_of_an_empty_folder_and_of_nothing_else(box):
    (box.folder / "work/empty").mkdir(parents=True)
    (box.folder / "work/full/of").mkdir(parents=True)
    assert box.start("true", links=link(box, "home/a", "empty")).wait() == 0
    assert box.start("echo ran", links=link(box, "home/b", "full")).wait() == 1
    assert box.says(f"home/b cannot be had as {box.folder}/work/full") and not box.says("ran")


@pytest.mark.parametrize("shell", SHELLS, ids=lambda shell: shell[0])
def test_it_signals_nobody_where_it_is_not_the_first_process(shell, tmp_path):
    done = subprocess.run([*shell, "-c", SUPERVISOR, "tessera", "true", str(tmp_path), "0", "1", "0", "0", ""])
    assert done.returncode == 70


def test_it_begins_when_those_that_it_needs_have_names(box):
    box.start("echo begun", needs="localhost localhost").wait()
    assert box.says("begun")


@pytest.mark.skipif(not shutil.which("getent"), reason="without getent nobody waits")
def test_who_is_stopped_while_it_waits_for_a_name_runs_nothing(box):
    box.start("echo begun", needs="localhost nobody.invalid")
    wait_for((box.folder / "work").exists)
    box.term()
    assert (box.wait(), box.told()) == (143, "tessera cause=stopped saved=") and not box.says("begun")


def test_secrets_are_variables_of_the_task_alone_whatever_they_are_called(box):
    values = {"HUB": "a b\n$HOME 'q' \\\n\n", "run": "of-run", "task": "x", "TESSERA": "é"}
    (box.folder / "secrets").mkdir()
    for name, value in values.items():
        (box.folder / "secrets" / name).write_text(value)
    told = {"TESSERA_SECRETS": str(box.folder / "secrets"), "TESSERA_SECRET_VARIABLES": " ".join(values)}
    check = "; ".join(f'printf %s "${name}" >{box.folder}/got.{name}' for name in values)
    assert box.start(f"{check}; env | grep -c ^TESSERA_VALUE= || exit 3", **told).wait() == 3
    assert {name: (box.folder / f"got.{name}").read_text() for name in values} == values


def test_a_secret_that_is_not_there_keeps_the_task_from_running(box):
    told = {"TESSERA_SECRETS": str(box.folder), "TESSERA_SECRET_VARIABLES": "HUB"}
    assert box.start("echo ran", **told).wait() == 127 and not box.says("ran")
