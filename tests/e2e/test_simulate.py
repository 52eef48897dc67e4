"""berth simulate as people and programs use it: tables, JSON, jobs, charts, other layouts, mistakes."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET

from harness import BERTH, main

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
sys.path.insert(0, os.path.join(ROOT, "tests", "bench"))
import gpu_workload as workload  # noqa: E402

TRACE = os.path.join(ROOT, "examples", "simulate", "trace.csv")
TABLE = os.path.join(ROOT, "examples", "simulate", "table.json")
FOLDER = tempfile.TemporaryDirectory(prefix="berth-simulate-")
POLICIES = ["berth", "fifo", "srtf", "las", "pack"]


def berth(*args, check=True):
    env = dict(os.environ, NO_COLOR="1", BERTH_HOME="/nonexistent")
    r = subprocess.run([BERTH, "simulate", *args], env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    if check and r.returncode:
        raise AssertionError(f"exit {r.returncode}: {r.stderr}")
    return r


def simulate(*args):
    return json.loads(berth(*args, "--json").stdout)["policies"]


def written(text, name="t.csv"):
    folder = tempfile.mkdtemp(dir=FOLDER.name)
    return workload.write(os.path.join(folder, name), text)


def test_table_for_people_fits_80_columns():
    out = berth(TRACE, "--table", TABLE, "--gpus", "8").stdout
    lines = out.splitlines()
    assert lines[0].split()[:4] == ["POLICY", "AVG-JCT", "MEDIAN", "P99"], out
    assert [x.split()[0] for x in lines[1:6]] == POLICIES, out
    assert max(map(len, lines)) <= 80, out


def test_json_has_every_figure():
    got = simulate(TRACE, "--table", TABLE, "--gpus", "8")
    assert list(got) == POLICIES
    for name, p in got.items():
        for key in ("avg_jct_s", "median_jct_s", "p99_jct_s", "makespan_s", "utilisation", "restarts", "plans", "plan_ms_mean",
                    "plan_ms_max", "tardiness_s", "weighted_tardiness_s", "tardy2x_s", "voluntary_stops_per_job_hour_max"):
            assert p[key] >= 0, (name, key, p)
        assert 0 < p["utilisation"] <= 1 and p["median_jct_s"] <= p["p99_jct_s"]
    assert got["fifo"]["restarts"] == got["pack"]["restarts"] == 0 < got["srtf"]["restarts"]
    assert got["berth"]["avg_jct_s"] < got["fifo"]["avg_jct_s"]
    assert got["berth"]["predicted"] == 60 and 0 < got["berth"]["calibration_80"] <= 1
    assert got["berth"]["voluntary_stops_per_job_hour_max"] <= 4


def test_one_seed_one_answer():
    def answer(*args):
        got = simulate(TRACE, "-t", TABLE, "-g", "8", "--noise", "1", "--elastic", "--jobs", *args)
        for p in got.values():
            del p["plan_ms_mean"], p["plan_ms_max"]
        return got

    assert answer("--seed", "5") == answer("--seed", "5")
    assert answer("--seed", "5")["srtf"] != answer("--seed", "6")["srtf"]


def test_jobs_line_by_line():
    lines = berth(TRACE, "-t", TABLE, "-g", "8", "-p", "srtf", "--jobs").stdout.splitlines()
    assert lines[0] == "policy,job,submit_s,start_s,end_s,attempts,gpu_s"
    rows = [x.split(",") for x in lines[1:]]
    assert len(rows) == 60 and len({r[1] for r in rows}) == 60
    for _, _, submit, start, end, attempts, gpu_s in rows:
        assert float(submit) <= float(start) < float(end) and int(attempts) >= 1 and float(gpu_s) > 0
    jobs = simulate(TRACE, "-t", TABLE, "-g", "8", "-p", "srtf", "--jobs")["srtf"]["jobs"]
    assert [j["job"] for j in jobs] == [r[1] for r in rows]


def test_elastic_and_objective_reach_the_planner():
    rigid = simulate(TRACE, "-t", TABLE, "-g", "8", "-p", "berth,srtf")
    elastic = simulate(TRACE, "-t", TABLE, "-g", "8", "-p", "berth,srtf", "--elastic")
    assert elastic["berth"]["avg_jct_s"] != rigid["berth"]["avg_jct_s"]
    assert elastic["srtf"]["avg_jct_s"] == rigid["srtf"]["avg_jct_s"]  # the references take what is asked for
    late = simulate(TRACE, "-t", TABLE, "-g", "8", "-p", "berth", "--objective", "tardiness")
    assert late["berth"]["tardiness_s"] >= 0


def test_chart_is_an_image_without_scripts():
    path = written("", "out.svg")
    berth(TRACE, "-t", TABLE, "-g", "8", "--svg", path)
    root = ET.parse(path).getroot()
    tags = [e.tag.split("}")[1] for e in root.iter()]
    assert root.tag.endswith("svg") and "script" not in tags
    assert tags.count("rect") >= 60 * len(POLICIES)
    texts = "".join(root.itertext())
    assert all(p in texts for p in POLICIES), texts[:300]


def test_logs_of_clusters():
    philly = written("timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-03 05:58:42,3600,2,7200,a\n"
                     "2017-10-03 06:00:00,600,32,0,a\n2017-10-03 06:00:00,60,0,0,a\n")
    r = berth(philly, "--gpus", "8", "--policy", "fifo", "--json")
    assert "skipped 1 row of jobs" in r.stderr and "1 job had more GPUs" in r.stderr, r.stderr
    doc = json.loads(r.stdout)
    assert doc["trace"]["layout"] == "philly" and doc["trace"]["jobs"] == 2
    assert doc["policies"]["fifo"]["makespan_s"] == 3630 + 630  # 32 GPUs became all 8, behind the first job
    pods = written("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,"
                   "scheduled_time\np0,1,1,1,460,,LS,Running,100,1300,300\n")
    assert json.loads(berth(pods, "-p", "fifo", "--json").stdout)["policies"]["fifo"]["makespan_s"] == 1030
    tasks = written("job_name,task_name,inst_num,status,start_time,end_time,plan_cpu,plan_mem,plan_gpu,gpu_type\n"
                    "a,w,2,Terminated,1000,1600,1,1,100,V100\n")
    assert json.loads(berth(tasks, "-p", "fifo", "--json", "-t", TABLE).stdout)["trace"]["layout"] == "alibaba-2020"


def test_windows_and_load():
    half = simulate(TRACE, "-t", TABLE, "-g", "8", "-p", "fifo", "--first", "10", "--count", "20", "--jobs")["fifo"]
    assert [j["job"] for j in half["jobs"]] == ["j%d" % i for i in range(10, 30)] and half["jobs"][0]["submit_s"] == 0
    busy = simulate(TRACE, "-t", TABLE, "-g", "8", "-p", "fifo", "--load", "2")["fifo"]
    calm = simulate(TRACE, "-t", TABLE, "-g", "8", "-p", "fifo", "--load", "0.2")["fifo"]
    assert calm["avg_jct_s"] < busy["avg_jct_s"] and calm["utilisation"] < busy["utilisation"]


def test_mistakes_name_place_and_remedy():
    head = "job,arrival,type,gpus,steps,isolated_s\n"
    cases = [
        ([written(head + "a,0,type-00,1,1,60\nb,x,type-00,1,1,60\n")], 2, r"t\.csv:3:3: column arrival: \"x\" is not usable; give"),
        ([written(head + "a,0,type-0,1,1,60\n"), "-t", TABLE], 2, r"t\.csv:2: column type: .* did you mean \"type-0"),
        ([written(head + "a,0,type-00,32,1,60\n")], 2, r"t\.csv:2:13: column gpus: job a wants 32 GPUs .* raise --gpus"),
        ([written("x,y\n1,2\n")], 2, r"t\.csv:1:1: the first line must name"),
        ([written(head)], 2, r"no job that used a GPU"),
        ([TRACE, "-t", written('{"a": {"1": {"alone": "fast"}}}', "t.json")], 2, r't\.json: "a"\."1"\."alone" must be steps'),
        ([TRACE, "-t", written("{", "t.json")], 2, r"t\.json:1:"),
        ([TRACE, "-p", "lifo"], 2, r"there is no policy lifo; use berth"),
        ([TRACE, "--noise", "much"], 2, r"--noise much is not a number from 0 to 10"),
        ([TRACE, "--gpus", "0"], 2, r"--gpus 0 is out of range; give 1 to 1024"),
        ([TRACE, "--first", "60"], 2, r"the trace has 60 jobs"),
        (["/nonexistent.csv"], 66, r"nonexistent\.csv"),
    ]
    for args, status, text in cases:
        r = berth(*args, check=False)
        assert r.returncode == status and re.search(text, r.stderr), (args, r.returncode, r.stderr)
        assert len(r.stderr.splitlines()) == 1 and not r.stdout, r.stderr


def test_progress_when_it_takes_long():
    rows = workload.trace(workload.synthetic_table(), "multi", 10000, 200, 1.2, 1)
    began = time.monotonic()
    r = berth(written(workload.as_csv(rows)), "-g", "200", "-p", "srtf")
    said = re.findall(r"^berth: policy srtf: \d+ of 10000 jobs are done$", r.stderr, re.M)
    assert said == r.stderr.splitlines()
    assert said or time.monotonic() - began < 4, "not a word in a long run"


def test_nobody_starves_and_nobody_thrashes():
    """48 hours of short jobs that want more than all GPUs; now and then a long one, also a gang of four."""
    hours, rows = 48, ["job,arrival,type,gpus,steps,isolated_s"]
    for i in range(hours * 30):  # 600 s of work every 120 s: 1.25 times what 4 GPUs can do
        rows.append(f"short{i},{i * 120},short{i % 3},1,600,600")
    for i in range(8):
        rows.append(f"long{i},{1800 + i * 7200},long,{4 if i % 2 else 1},36000,36000")
    rows[1:] = sorted(rows[1:], key=lambda r: int(r.split(",")[1]))
    got = simulate(written("\n".join(rows) + "\n"), "--gpus", "4", "--policy", "berth", "--jobs")["berth"]
    waits = {j["job"]: (j["start_s"] - j["submit_s"]) / 3600 for j in got["jobs"] if j["job"].startswith("long")}
    assert len(waits) == 8 and max(waits.values()) <= 26, waits
    assert got["voluntary_stops_per_job_hour_max"] <= 4, got["voluntary_stops_per_job_hour_max"]


if __name__ == "__main__":
    main(__name__)
