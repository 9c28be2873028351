"""What a process counts of its own work. Labels are bounded: never a person, a job or a pod."""

from prometheus_client import Counter, Gauge, Histogram

from metrics.children import share_metrics, wants_shared

if wants_shared():
    share_metrics()  # before what follows is made

FAST_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
SLOW_S = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 24 * 3600, 7 * 24 * 3600)

HTTP_SECONDS = Histogram(
    "tessera_http_request_seconds",
    "Time of a request to the portal, from its turn to the answer's first byte.",
    ["route", "method", "code"],
    buckets=FAST_S,
)
REFUSED_REQUESTS = Counter("tessera_authz_denied_total", "Requests that were answered 403.", ["route"])
UNKNOWN_CALLERS = Counter(
    "tessera_auth_failures_total", "Requests and sign-ins with a wrong or missing secret.", ["kind"]
)
WEBSOCKETS_OPEN = Gauge("tessera_ws_open", "Websockets that are open now.", multiprocess_mode="livesum")
WEBSOCKETS_REFUSED = Counter("tessera_ws_handshake_rejected_total", "Websockets that were not accepted.", ["reason"])

LOOP_SECONDS = Histogram(
    "tessera_loop_seconds", "Time of a round of a loop that led.", ["loop", "result"], buckets=FAST_S
)
CYCLE_SECONDS = Histogram("tessera_sched_cycle_seconds", "Time of a whole scheduling cycle.", buckets=FAST_S)
CYCLES = Counter("tessera_sched_cycles_total", "Scheduling cycles, by whether anything had changed.", ["result"])
STALE_WRITES = Counter("tessera_stale_epoch_writes_total", "Writes of a leader whose time was over, refused.")
QUEUE_WAIT_SECONDS = Histogram(
    "tessera_queue_wait_seconds",
    "Time from being queued to the start of an attempt.",
    ["team", "class"],
    buckets=SLOW_S,
)
START_SECONDS = Histogram(
    "tessera_bind_to_running_seconds", "Time from a task's cards to its running program.", ["executor"], buckets=SLOW_S
)
START_FAILURES = Counter("tessera_start_failures_total", "Tasks that never ran, by reason.", ["reason"])
TASKS_ENDED = Counter("tessera_tasks_ended_total", "Tasks that ended, by state and reason.", ["state", "reason"])
SLICE_KILLS = Counter(
    "tessera_slice_kills_total", "Tasks that were ended as they used more GPU memory than their slice."
)

SAMPLES_TAKEN = Counter("tessera_samples_taken_total", "Ticks of machines that were taken.")
SAMPLES_REFUSED = Counter(
    "tessera_samples_refused_total", "Values of samples that were dropped, by what is wrong.", ["why"]
)
REMOTE_WRITTEN = Counter(
    "tessera_remote_write_samples_total", "Values for a series engine, by what became of them.", ["result"]
)
BEATS = Counter("tessera_beat_sent_total", "Messages of the beat, by task.", ["task"])
SENT = Counter("tessera_deliveries_total", "Tries to send a webhook or a mail.", ["kind", "result"])
