"""The job file: its keys, each with its shape, its limits and a sentence.

The reader, the JSON Schema, the body of `POST /jobs` and the table in docs/reference/job-file.md come from this.
"""

from accounts.scopes import JOB_SCOPES
from jobs.jobfile.array_values import Array
from jobs.jobfile.search.wish import SEARCH
from jobs.jobfile.serving import ACCESS, BackIf, Canary, Hold, Serving
from jobs.jobfile.shapes import Choice, Field, Flag, Keys, Whole
from jobs.jobfile.spec import LEVELS, NOTIFY_WHEN, Checkpoint, IdleWish, MainProgram, NotifyWish, PlaceWish
from jobs.jobfile.values import (
    AFTER,
    CODE,
    CPU,
    DATA,
    DIRECTORY,
    ENV,
    ENVIRONMENT_NAME,
    FACTOR,
    GPU,
    HTTP_PATH,
    IMAGE,
    LABELS,
    MEMORY,
    MOMENT,
    NAME,
    OUTPUTS,
    PERCENT,
    ROLE_CODE,
    ROLE_NAME,
    RUN,
    SECRETS,
    SHARE,
    WORKDIR,
    Choices,
    Duration,
    Names,
    Ports,
    Roles,
    Span,
    read_name,
)

MAX_NODES = 10_000  # tasks of a job
PRIORITIES = ("low", "normal", "high", "urgent")
ENDS_JOB = ("any", "all")
# End reasons (jobs/states.py) that can be retried.
RETRY_WHEN = (
    "node_lost", "container_lost", "preempted", "reclaimed", "gang_broken", "exit_nonzero", "out_of_memory",
    "evicted",
    "gpu_out_of_memory", "image_pull", "rejected_by_cluster", "time_limit",
)  # fmt: skip
# Sent before the SIGTERM that ends the job.
CHECKPOINT_SIGNALS = ("SIGUSR1", "SIGUSR2", "SIGINT", "SIGHUP")
MAX_GRACE_S = 3_600
IDLE_LEAST_S, IDLE_MOST_S = 600, 86_400
IDLE_THEN = ("tell", "shrink", "stop")
# Kinds that have no job file: a notebook has a name, files and hours of its own.
NOT_BY_FILE = {"notebook": "notebook_not_here", "interactive": "notebook_not_here"}
# Not allowed beside `roles`.
NOT_WITH_ROLES = ("run", "gpu", "cpu", "memory", "shm", "rdma", "nodes", "ports")
# Not allowed in a service: its replicas are one task each, last until they are not needed, and are started again.
NOT_IN_SERVICE = (
    "nodes", "roles", "main", "array", "search", "token", "time", "max_time", "retry", "hold", "start_at", "wait_max",
    "after", "tensorboard", "outputs", "idle", "notify", "place",
)  # fmt: skip

_TASK = (
    Field(
        "gpu", GPU, "GPUs of each task: whole cards, or a slice of one.", "none", examples=(1, "1/4", "10GB", "H100:8")
    ),
    Field("cpu", CPU, "CPU cores of each task.", "the pool's", "cpu_milli", examples=(4, "500m")),
    Field(
        "memory", MEMORY, "Memory of each task, with its unit.", "the pool's", "memory_mib", examples=("16GB", "16GiB")
    ),
    Field(
        "shm",
        MEMORY,
        "How much of its memory each task may use in /dev/shm.",
        "all of it",
        "shm_mib",
        examples=("8GB",),
    ),
    Field(
        "rdma",
        Flag(),
        "Whether each task needs an RDMA adapter, near its cards where possible.",
        "false",
    ),
)
_PORTS = Field(
    "ports", Ports(1024, 65_535), "Ports on which the tasks listen; each is a link.", "none", examples=([8080],)
)


RETRY = Keys(
    (
        Field("times", Whole(0, 100), "How often the job is started again.", "3"),
        Field(
            "when",
            Choices(RETRY_WHEN),
            "The reasons for which it is.",
            "those that are not its own fault",
        ),
    ),
    short="times",
)
CHECKPOINT = Keys(
    (
        Field("dir", DIRECTORY, "Where the job saves checkpoints.", required=True),
        Field("signal", Choice(CHECKPOINT_SIGNALS), "The signal that asks for one before a stop.", "SIGTERM"),
        Field("grace", Duration(MAX_GRACE_S), "Time to save.", "1m", "grace_s", examples=("3m",)),
    ),
    short="dir",
    make=Checkpoint,
)
IDLE = Keys(
    (
        Field(
            "for",
            Duration(IDLE_MOST_S, IDLE_LEAST_S),
            "After how long without any work.",
            required=True,
            into="for_s",
            examples=("45m",),
        ),
        Field("then", Choice(IDLE_THEN), "What is done: tell its owner, shrink its slice, stop it.", "stop"),
    ),
    make=IdleWish,
)
PLACE = Keys(
    (
        Field("same", Choice(LEVELS), "What all its tasks must share; they wait for it together.", "nothing"),
        Field("prefer", Choice(LEVELS), "What they share where that costs no wait; else they are on few.", "nothing"),
    ),
    make=PlaceWish,
)
NOTIFY = Keys(
    (
        Field("when", Choices(NOTIFY_WHEN), "Of what the owner is told, whatever their settings say.", "all three"),
        Field("to", Names(read_name, 20), "Others of the team who are told, too, as their settings say.", "none"),
    ),
    short="when",
    make=NotifyWish,
)
HOLD = Keys(
    (
        Field("requests", Whole(1, 10_000), "How many requests wait, of each process that takes them.", "200"),
        Field("for", Duration(3_600), "How long each waits; then its caller is told why.", "3m", "for_s"),
    ),
    make=Hold,
)
REPLICAS = Span(0, 100)
BACK_IF = Keys(
    (
        Field("errors", PERCENT, "More of its requests fail (5xx, or broken off).", "2%", examples=("0.5%",)),
        Field(
            "p95", FACTOR, "Its p95 is above that of the current revision by this factor.", "not", examples=("1.5x",)
        ),
    ),
    make=BackIf,
)
CANARY = Keys(
    (
        Field("share", SHARE, "How much of the requests it gets, up to 50%.", "10%", examples=("5%",)),
        Field("for", Duration(86_400), "How long it is tried, before it takes over.", "30m", "for_s"),
        Field("back_if", BACK_IF, "When it goes back at once.", "errors: 2%", examples=({"p95": "1.5x"},)),
    ),
    make=Canary,
)
SERVE = Keys(
    (
        Field("port", Whole(1024, 65_535), "The port on which a replica listens.", required=True, examples=(8000,)),
        Field(
            "ready",
            HTTP_PATH,
            "A path that answers 200 once a replica can take requests.",
            "the port listens",
            examples=("/health",),
        ),
        Field(
            "replicas",
            REPLICAS,
            "How many replicas, or the least and the most; 0 lets the service sleep without requests.",
            "0..1",
            examples=("0..4",),
        ),
        Field("target", Whole(1, 10_000), "The requests in flight that one replica is to have.", "8"),
        Field(
            "idle",
            Duration(),
            "After how long without requests it sleeps, where the least is 0.",
            "10m",
            "idle_s",
        ),
        Field(
            "hold",
            HOLD,
            "How many requests wait while no replica is ready, and how long.",
            "200 for 3m",
            examples=({"requests": 50, "for": "1m"},),
        ),
        Field("access", Choice(ACCESS), "Whose API tokens may call it; its own keys always may.", "team"),
        Field(
            "canary",
            CANARY,
            "Tries a new revision on a share of the requests, beside the current one, before it takes over.",
            "it takes over once it is ready",
            examples=({"share": "10%", "for": "30m"},),
        ),
    ),
    make=Serving,
)
MAIN = Keys(
    (
        Field("role", ROLE_NAME, "The role in whose first task it runs.", required=True),
        Field("run", RUN, "The command, for a shell, beside the role's own.", required=True),
        Field("ends_job", Flag(), "Whether the job is done once it succeeded.", "true"),
    ),
    make=MainProgram,
)
ROLE = Keys(
    (
        Field("run", RUN, "The command of the role's tasks, for a shell.", required=True),
        *_TASK,
        Field("image", IMAGE, "A container image of the role's own.", "the job's", examples=("ray",)),
        Field("workdir", WORKDIR, "The directory in which its tasks start, below the code.", "the job's"),
        Field("env", ENV, "Variables of the role's tasks, beside those of the job.", "none"),
        Field("secrets", SECRETS, "Secrets of the role's tasks, beside those of the job.", "none"),
        Field("data", DATA, "Folders of the role's tasks, beside those of the job.", "none"),
        _PORTS,
        Field(
            "count",
            Span(1, MAX_NODES),
            "How many tasks, or the least and the most.",
            "1",
            "nodes",
            examples=(2, "4..8"),
        ),
        Field(
            "ends_job",
            Choice(ENDS_JOB, written=True),
            "The job is done once any or all of these tasks succeeded.",
            "once all tasks of the job did",
        ),
        Field("code", ROLE_CODE, "Code of the role's own.", "the job's", examples=("git+https://host/tools@v1",)),
    )
)
JOB = Keys(
    (
        Field("kind", Choice(("batch", "service"), elsewhere=NOT_BY_FILE), "The kind of job.", "batch"),
        Field("name", NAME, "The job's name.", "from the command"),
        Field("team", NAME, "The team whose quota it uses.", "your only team"),
        Field(
            "pool",
            NAME,
            "The pool it runs in.",
            "all of the team's in which it could run; it starts in the first with room",
        ),
        Field(
            "image",
            IMAGE,
            "A container image, by its name in the catalogue or in full.",
            "the installation's",
            examples=("pytorch",),
        ),
        Field(
            "environment",
            ENVIRONMENT_NAME,
            "Python packages in a version, read-only, with the image in which they were installed.",
            "none",
            examples=("sd-train@3",),
        ),
        Field(
            "code",
            CODE,
            "The code: a dot for this directory, the digest of an uploaded archive, or a Git repository.",
            "none",
            examples=(".", "git+https://github.com/team/project@main"),
        ),
        Field(
            "run",
            RUN,
            "The command of each task, for a shell.",
            "required without roles",
            examples=("python train.py",),
        ),
        *_TASK,
        Field(
            "nodes",
            Span(1, MAX_NODES),
            "How many tasks start together, or the least and the most.",
            "1",
            examples=(2, "4..8"),
        ),
        Field("env", ENV, "Environment variables of all tasks.", "none", examples=({"SEED": "1"},)),
        Field(
            "secrets",
            SECRETS,
            "Secrets of yours or your team by name, as variables and files, or as files alone.",
            "none",
            examples=(["WANDB_API_KEY"], {"HF_TOKEN": "file", "DEPLOY_KEY": "team:file"}),
        ),
        Field(
            "token",
            Choices(JOB_SCOPES),
            "Scopes of an API token in TESSERA_TOKEN, by which its tasks act for you until they end.",
            "none, and so no token",
            examples=(["jobs:read", "jobs:write"],),
        ),
        Field("workdir", WORKDIR, "The directory to start in, below the code.", "the code's top"),
        Field("priority", Choice(PRIORITIES), "Its place in the queue; high priority may have a price.", "normal"),
        Field(
            "time",
            Duration(),
            "An estimate; with one, a job waits less.",
            "unknown",
            "time_s",
            examples=("2h", "1h30m"),
        ),
        Field("max_time", Duration(), "When the job is ended.", "the pool's", "max_time_s", examples=("1d",)),
        Field(
            "retry",
            RETRY,
            "How often it is started again, and for which reasons.",
            "3 times, for reasons that are not its own fault",
            examples=(3,),
        ),
        Field(
            "preemptible",
            Flag(),
            "Whether it may use what other teams do not need, and be stopped and queued again when they do.",
            "the pool's",
        ),
        Field(
            "place",
            PLACE,
            "Which part of the network all tasks of the job share: a switch, or one machine.",
            "wherever they fit",
            examples=({"same": "switch"},),
        ),
        Field("labels", LABELS, "Your own names and values, to find it by.", "none", examples=({"exp": "a"},)),
        Field("hold", Flag(), "Whether it waits until it is released.", "false"),
        Field(
            "start_at",
            MOMENT,
            "It does not start before this moment; one that has passed keeps it from nothing.",
            "as soon as it can",
            examples=("2027-01-05T22:00+08:00",),
        ),
        Field(
            "wait_max",
            Duration(),
            "How long it may wait for its first start, counted from start_at if that is later; then it is cancelled.",
            "for ever",
            "wait_max_s",
            examples=("3d",),
        ),
        Field(
            "after",
            AFTER,
            "Jobs and arrays that end before it starts, by id or by the name of your newest, with the end of each.",
            "none",
            examples=("prepare", ["job-12", "arr-9"], {"job-12": "any"}),
        ),
        _PORTS,
        Field("tensorboard", DIRECTORY, "The directory of TensorBoard's event files.", "none", examples=("runs",)),
        Field(
            "data",
            DATA,
            "Folders of your home, team or a volume, or versions of datasets, by the path below the working directory.",
            "none",
            examples=({"in": "team:corpus:ro"}, {"in": "dataset:corpus@v7"}),
        ),
        Field(
            "outputs",
            OUTPUTS,
            "Datasets and models of the team whose next version a folder becomes at success; env: an environment.",
            "none",
            examples=({"out": "model:sentiment"},),
        ),
        Field(
            "checkpoint",
            CHECKPOINT,
            "Where it saves checkpoints, and how it is asked for one.",
            "none",
            examples=("ckpt",),
        ),
        Field(
            "idle",
            IDLE,
            "What is done when it does nothing: stricter than the pool's rule, never laxer.",
            "the pool's rule",
            examples=({"for": "45m", "then": "stop"},),
        ),
        Field(
            "notify",
            NOTIFY,
            "Who is told in the portal and by mail when it starts, succeeds or fails, beside what settings say.",
            "as people's settings say",
            examples=("failure", {"when": ["success", "failure"], "to": ["bob"]}),
        ),
        Field(
            "roles",
            Roles(ROLE_NAME, ROLE, most=16, most_tasks=MAX_NODES),
            "Unlike tasks, by name, instead of run and what each task asks for.",
            "none",
        ),
        Field(
            "main",
            MAIN,
            "The program of the job that runs beside a role's command, as on the head of a cluster of its own.",
            "none",
            examples=({"role": "head", "run": "python sweep.py"},),
        ),
        Field(
            "array",
            Array(),
            "Many alike jobs: how many, or the product of values by name; at_once: the most that are open together.",
            "one job",
            examples=(100, {"lr": ["1e-4", "3e-4"], "seed": "1..5", "at_once": 3}),
        ),
        Field(
            "search",
            SEARCH,
            "A sweep: alike jobs, its trials, whose values are chosen from a space to find the best of a metric.",
            "one job",
            examples=({"metric": "loss", "trials": 40, "space": {"lr": "1e-5..1e-1 log"}},),
        ),
        Field(
            "serve",
            SERVE,
            "Of kind: service: where its replicas listen, how many there are, and who may call it.",
            "required in a service",
            examples=({"port": 8000, "ready": "/health", "replicas": "0..4"},),
        ),
    )
)
