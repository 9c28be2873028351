"""Keys, values and limits of the job file, as data."""

# Supported; parse.py has a reader for each.
SUPPORTED = (
    "kind", "name", "team", "pool", "image", "code", "run", "gpu", "cpu", "memory", "nodes", "roles", "env", "workdir",
    "priority", "time", "max_time", "retry", "preemptible", "labels", "hold", "ports", "tensorboard", "data",
    "checkpoint",
)  # fmt: skip
# Not supported yet.
UNSUPPORTED = (
    "shm", "place", "notify", "secrets", "main", "array", "after", "wait_max", "idle",
)  # fmt: skip
ROLE_SUPPORTED = ("run", "gpu", "cpu", "memory", "env", "count", "ports", "ends_job")
ROLE_UNSUPPORTED = ("image", "code", "workdir", "shm", "data", "secrets", "place")
# Not allowed beside `roles`.
NOT_WITH_ROLES = ("run", "gpu", "cpu", "memory", "nodes", "ports")
ENDS_JOB = ("any", "all")
# Other platforms' names.
ALIASES = {"nodes": "count", "replicas": "count", "command": "run", "num_nodes": "nodes"}
RETRY_SUPPORTED = ("times", "when")
CHECKPOINT_SUPPORTED = ("dir", "signal", "grace")

# Kept as text as written, such as `name: 007` and `NORWAY: no`. "*" is any key.
TEXT = (
    ("name",), ("team",), ("pool",), ("image",), ("code",), ("run",), ("workdir",), ("env", "*"), ("labels", "*"),
    ("tensorboard",), ("data", "*"), ("checkpoint", "dir"),
    ("roles", "*", "run"), ("roles", "*", "env", "*"), ("roles", "*", "ends_job"),
)  # fmt: skip

KINDS_UNSUPPORTED = ("notebook", "interactive", "service")
PRIORITIES = ("low", "normal", "high", "urgent")

# End reasons (jobs/states.py) that can be retried.
RETRY_WHEN = (
    "node_lost", "container_lost", "preempted", "reclaimed", "gang_broken", "exit_nonzero", "out_of_memory",
    "evicted",
    "gpu_out_of_memory", "image_pull", "rejected_by_cluster", "time_limit",
)  # fmt: skip
RETRY_WHEN_UNSUPPORTED = ("nccl_timeout",)

# Sent before the SIGTERM that ends the job.
CHECKPOINT_SIGNALS = ("SIGUSR1", "SIGUSR2", "SIGINT", "SIGHUP")

MAX_NODES = 10_000  # tasks of a job
MAX_ROLES = 16
MAX_RETRY_TIMES = 100
MAX_IMAGE = 512
MAX_WORKDIR = 1_024
MAX_ENV = 200
MAX_ENV_NAME = 256
MAX_ENV_VALUE_BYTES = 32 * 1024
MAX_ENV_BYTES = 128 * 1024  # Linux: 128 KiB per string, a quarter of the stack for all
MAX_PORTS = 16
PORT_RANGE = (1024, 65_535)  # lower ones need root
MAX_DATA = 32
MAX_GRACE_S = 3_600
MAX_LABELS = 32
MAX_LABEL_VALUE = 256
MAX_ERRORS = 50  # in one answer

# These pick the GPU, lift its limit, load code into the platform's launcher, or are set by the platform.
RESERVED_ENV_PREFIXES = ("NVIDIA_", "CUDA_DEVICE_", "CUDA_MPS_", "LD_", "TESSERA_")
RESERVED_ENV = (
    "CUDA_VISIBLE_DEVICES", "CUDA_DISABLE_CONTROL", "CUDA_OVERSUBSCRIBE", "CUDA_REDIRECT", "CUDA_TASK_PRIORITY",
    "GPU_CORE_UTILIZATION_POLICY", "ACTIVE_OOM_KILLER", "RANK", "WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT",
)  # fmt: skip
