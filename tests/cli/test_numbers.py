"""`tessera numbers`: a table, or the points of the curves."""

ANSWER = {
    "job": "job-7",
    "numbers": [
        {
            "job": "job-7", "task": "main.0", "name": "loss", "count": 1200,
            "last": {"value": 0.31, "step": 1200.0, "at": "2027-01-05T10:00:00Z"},
            "min": {"value": 0.25, "step": 900.0}, "max": {"value": 2.0, "step": 1.0},
            "points": [
                {"step": 1.0, "value": 2.0, "at": "2027-01-05T09:00:00Z"},
                {"step": 1200.0, "value": 0.31, "at": "2027-01-05T10:00:00Z"},
            ],
        },
    ],
    "untaken": [{"task": "main.0", "refused": 1, "skipped_bytes": 0, "text": "main.0: 1 line was not taken."}],
}  # fmt: skip


def test_a_table_has_the_last_and_the_best(server, tessera):
    server.on("GET /jobs/job-7/numbers", (200, ANSWER))
    done = tessera("numbers", "job-7")
    head, row = done.stdout.splitlines()
    assert head.split() == ["NAME", "JOB", "TASK", "LAST", "STEP", "MIN", "AT", "STEP", "MAX", "AT", "STEP", "COUNT"]
    assert row.split() == ["loss", "job-7", "main.0", "0.31", "1200", "0.25", "900", "2", "1", "1200"]
    assert done.stderr == "main.0: 1 line was not taken.\n" and done.exit_code == 0


def test_csv_has_each_point(server, tessera):
    server.on("GET /jobs/job-7/numbers", (200, ANSWER), (200, ANSWER))
    done = tessera("numbers", "job-7", "--csv")
    assert done.stdout.splitlines() == [
        "job,task,name,step,value,at",
        "job-7,main.0,loss,1,2.0,2027-01-05T09:00:00Z",
        "job-7,main.0,loss,1200,0.31,2027-01-05T10:00:00Z",
    ]
    assert "name=loss" in server.of("GET /jobs/job-7/numbers")[1][1]


def test_other_jobs_stand_beside_it(server, tessera):
    server.on("GET /jobs/job-7/numbers", (200, ANSWER))
    tessera("numbers", "job-7", "--compare", "job-8", "--compare", "job-9")
    assert "jobs=job-8%2Cjob-9" in server.of("GET /jobs/job-7/numbers")[0][1]


def test_a_job_without_numbers_is_told_how_to_report_them(server, tessera):
    server.on("GET /jobs/job-7/numbers", (200, {"job": "job-7", "numbers": [], "untaken": []}))
    done = tessera("numbers", "job-7")
    assert done.stdout == "" and "tessera-report loss=0.31 step=100" in done.stderr
