"""The server against its own description: every path and method of openapi.yaml is asked, and what comes
back has a status the file names and a body that fits the schema; and the file knows every route there is."""
import atexit
import copy
import io
import json
import os
import sys
import tarfile

import harness

try:
    import jsonschema
    import yaml
except ImportError as missing:
    print(f"1..0 # SKIP {missing}; install python3-yaml and python3-jsonschema")
    sys.exit(0)

FILE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "api", "openapi.yaml")
home = None
spec = None


def setup():
    global home, spec
    if home is None:
        home = harness.Home()
        atexit.register(home.close)
        home.start("--slots", "2")
        status, _, text = home.request("GET", "/v1/openapi.yaml")
        assert status == 200, status
        with open(FILE, "rb") as f:
            assert text == f.read(), "the server has another openapi.yaml built in than docs/api has"
        spec = to_json_schema(yaml.safe_load(text))


def to_json_schema(node):
    """OpenAPI says nullable: true where JSON Schema adds the type null."""
    if isinstance(node, dict):
        node = {k: to_json_schema(v) for k, v in node.items()}
        if node.pop("nullable", False) is True:
            node["type"] = [node["type"], "null"]
        return node
    return [to_json_schema(v) for v in node] if isinstance(node, list) else node


def deref(node):
    while isinstance(node, dict) and "$ref" in node:
        target = spec
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def validate(instance, schema):
    # Recent versions of jsonschema prefer another way to give definitions; this one works in all.
    jsonschema.Draft4Validator({**schema, "components": spec["components"]}).validate(instance)


def check(method, path, body=None, headers=None, want=None, route=None):
    """Asks and compares with what the file says about `route`; returns the body."""
    op = spec["paths"][route or path.split("?")[0]][method.lower()]
    status, head, data = home.request(method, path, body, headers)
    where = f"{method} {path}"
    assert str(status) in op["responses"], f"{where}: status {status} is not in the file: {data[:300]}"
    assert want is None or status == want, f"{where}: {status} instead of {want}: {data[:300]}"
    content = deref(op["responses"][str(status)]).get("content")
    if not content:
        assert not data, f"{where}: {status} has a body: {data[:200]}"
        return None
    kind = head["Content-Type"].split(";")[0]
    assert kind in content, f"{where}: {kind} is not in the file"
    if "json" not in kind:
        return data if kind == "application/gzip" else data.decode()
    value = json.loads(data)
    try:
        validate(value, content[kind]["schema"])
    except jsonschema.ValidationError as e:
        raise AssertionError(f"{where}: {e.message} at {list(e.absolute_path)}") from None
    for name in op["responses"][str(status)].get("headers", {}):
        if name == "ETag":
            assert head[name], f"{where}: no {name}"
            again, _, _ = home.request(method, path, body, {"If-None-Match": head[name]})
            assert again in (200, 304), again  # 304 unless a job moved meanwhile
    return value


def test_file_is_openapi():
    setup()
    assert spec["openapi"].startswith("3.0")
    seen = set()
    for path, item in spec["paths"].items():
        names = {deref(p)["name"] for p in item.get("parameters", [])}
        wanted = {s[1:-1] for s in path.split("/") if s.startswith("{")}
        assert names == wanted, f"{path}: parameters {names} do not match"
        for method, op in item.items():
            if method == "parameters":
                continue
            assert op["operationId"] not in seen, f"{op['operationId']} is used twice"
            seen.add(op["operationId"])
            for status, response in op["responses"].items():
                assert deref(response)["description"], f"{method} {path} {status}: no description"
    walk_refs(spec)


def walk_refs(node):
    if isinstance(node, dict):
        if "$ref" in node:
            deref(node)
        for v in node.values():
            walk_refs(v)
    elif isinstance(node, list):
        for v in node:
            walk_refs(v)


def test_every_route_is_described():
    setup()
    served = {(r["method"], r["path"]) for r in home.api("GET", "/v1/routes")["items"]}
    described = {(m.upper(), p) for p, item in spec["paths"].items() for m, op in item.items()
                 if m != "parameters" and op["tags"] != ["gpu scheduler"]}  # an interface beside the table
    assert served == described, f"only served: {served - described}; only described: {described - served}"


def test_examples_are_accepted():
    setup()
    op = spec["paths"]["/v1/jobs"]["post"]
    for name, example in op["requestBody"]["content"]["application/json"]["examples"].items():
        value = copy.deepcopy(example["value"])
        if isinstance(value, list):
            for one in value:
                one.pop("after", None)  # names a job that is not here
        check("POST", "/v1/jobs", value, want=201)
    home.api("POST", "/v1/jobs/cancel", {"all": True})
    home.wait_all()


def walk_snapshots(ask):
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w:gz") as tar:
        for name, data in (("snapshot", None), ("snapshot/hello", b"hello\n")):
            info = tarfile.TarInfo(name)
            info.type = tarfile.REGTYPE if data else tarfile.DIRTYPE
            info.size = len(data or b"")
            tar.addfile(info, io.BytesIO(data or b""))
    assert len(ask("POST", "/v1/snapshots/contents", {"contents": ["0" * 64]}, want=200)["missing"]) == 1
    ask("POST", "/v1/snapshots/contents", {"contents": ["x"]}, want=400)
    ask("POST", "/v1/snapshots", b"no tar", want=400)
    made = ask("POST", "/v1/snapshots", body.getvalue(), want=201)
    job = home.submit("cat", "hello", snapshot=made["id"])["number"]
    assert home.api("GET", f"/v1/jobs/{job}")["snapshot"] == made
    data = ask("GET", f"/v1/jobs/{job}/snapshot", route="/v1/jobs/{job}/snapshot", want=200)
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        assert tar.extractfile("snapshot/hello").read() == b"hello\n"
    ask("GET", "/v1/jobs/1/snapshot", route="/v1/jobs/{job}/snapshot", want=404)


def test_walk():
    setup()
    asked = set()

    def ask(method, path, *args, route=None, **kw):
        asked.add((method, route or path.split("?")[0]))
        return check(method, path, *args, route=route, **kw)

    ask("GET", "/healthz", want=200)
    ask("GET", "/metrics", want=200)
    about = ask("GET", "/v1", want=200)
    ask("GET", "/v1/routes", want=200)
    ask("GET", "/v1/openapi.yaml", want=200)
    ask("GET", "/v1/schema/job", want=200)
    ask("GET", "/v1/schema/sweep", want=200)
    ask("POST", "/v1/session", want=201)
    ask("DELETE", "/v1/session", want=204)
    walk_one(ask, walk_submit(ask))
    walk_lists(ask)
    walk_schedules(ask)
    walk_studies(ask)
    walk_study_logs(ask)
    walk_snapshots(ask)
    walk_hooks(ask)
    walk_groups(ask, about["node"]["name"])
    walk_gpu_scheduler(ask)
    ask("GET", "/v1/backup", want=200)
    ask("POST", "/v1/backup", {"path": os.path.join(home.dir, "copy.db")}, want=200)
    ask("POST", "/v1/backup", {"path": "relative.db"}, want=400)
    ask("POST", "/v1/backup", {"path": os.path.join(home.dir, "copy.db")}, want=409)
    ask("POST", "/v1/shutdown", want=202)
    assert home.daemon.wait(120) == 0
    home.disconnect()
    described = {(m.upper(), p) for p, item in spec["paths"].items() for m in item if m != "parameters"}
    assert asked == described, f"never asked: {described - asked}"


def walk_gpu_scheduler(ask):
    body = {"jobName": "walk", "scriptPath": "/custom/t.py", "directoryToMount": home.dir}
    ask("POST", "/submit", {"scriptPath": "x"}, want=400)
    job = ask("POST", "/submit", body, {"Idempotency-Key": "gpu-walk"}, want=201)
    assert ask("POST", "/submit", body, {"Idempotency-Key": "gpu-walk"}, want=200)["id"] == job["id"]
    assert [r["id"] for r in ask("GET", "/gpu-scheduler/jobs?n=5", want=200)["items"]] == [job["id"]]
    ask("GET", f"/gpu-scheduler/jobs/{job['id']}", want=200, route="/gpu-scheduler/jobs/{job}")
    ask("GET", "/gpu-scheduler/jobs/zzzz", want=404, route="/gpu-scheduler/jobs/{job}")
    nobody = "ffffffff-0000-0000-0000-000000000000"
    for method, name, more in (("GET", "has_to_stop", ""), ("POST", "profiling", ""), ("POST", "end_epoch", ""),
                               ("POST", "signal_end", ""), ("POST", "signal_end_profiling", "/7")):
        route = f"/{name}/{{job}}" + ("/{config}" if more else "")
        ask(method, f"/{name}/{nobody}{more}", b'{"done": 1}' if method == "POST" else None, want=404, route=route)
    ask("POST", f"/end_epoch/{nobody}", b'{"done": -1}', want=400, route="/end_epoch/{job}")


def walk_submit(ask):
    one = {"command": ["sh", "-c", "echo out; echo err >&2"], "name": "one", "split_output": True, "cwd": "/"}
    first = ask("POST", "/v1/jobs", one, want=201)
    assert first["name"] == "one" and first["state"] == "queued"
    ask("POST", "/v1/jobs", [dict(one, name="two"), dict(one, after=[first["id"]])], want=201)
    sweep = {"command": "echo {a}", "params": {"a": [1, 2, 3]}, "name": "swept", "cwd": "/"}
    many = ask("POST", "/v1/jobs", sweep, {"Idempotency-Key": "walk"}, want=201)
    assert many["count"] == 3 and many["batch"]
    assert ask("POST", "/v1/jobs", sweep, {"Idempotency-Key": "walk"}, want=200) == many
    ask("POST", "/v1/jobs", b"command: [echo, hi]\n", {"Content-Type": "application/yaml"}, want=201)
    ask("POST", "/v1/jobs", {"comand": "x"}, want=400)
    ask("POST", "/v1/jobs", {"command": "x", "after": [999999]}, want=404)
    ask("POST", "/v1/jobs", one, {"Idempotency-Key": "x" * 201}, want=413)
    home.wait_all()
    failed = home.submit("false")["number"]
    home.wait_all()
    ask("POST", "/v1/jobs", {"command": "x", "after": [failed]}, want=409)
    return first["number"]


def walk_one(ask, split):
    job = home.submit("sh", "-c", "sleep 600")["number"]
    path = f"/v1/jobs/{job}"
    ask("GET", path + "/explain", want=200, route="/v1/jobs/{job}/explain")
    while home.api("GET", path)["state"] != "running":
        pass
    line = b'{"k":"m","n":"loss","v":0.5,"s":1,"t":1731700000000}\n'
    tags = b'{"k":"t","n":"net","x":"cnn"}\n{"k":"a","n":"model","x":"/tmp/m.pt"}\n{"k":"e","s":1}\n'
    got = ask("POST", path + "/reports?run=1&offset=0", line + tags, want=200, route="/v1/jobs/{job}/reports")
    assert got["offset"] == len(line + tags)
    ask("POST", path + "/reports", line, want=400, route="/v1/jobs/{job}/reports")
    record = ask("GET", path, want=200, route="/v1/jobs/{job}")
    assert record["metrics"]["loss"]["value"] == 0.5 and record["tags"] == {"net": "cnn"}
    assert record["artifacts"]["model"]["path"] == "/tmp/m.pt"
    series = ask("GET", path + "/metrics", want=200, route="/v1/jobs/{job}/metrics")
    assert len(series["metrics"]["loss"]) == 1
    series = ask("GET", path + "/metrics?buckets=10&by=time", want=200, route="/v1/jobs/{job}/metrics")
    assert series["metrics"]["loss"]["last"] == [0.5], series
    ask("GET", path + "/metrics?buckets=10&by=colour", want=400, route="/v1/jobs/{job}/metrics")
    ask("GET", path + "/metrics?name=gone", want=404, route="/v1/jobs/{job}/metrics")
    assert ask("GET", path + "/control", want=200, route="/v1/jobs/{job}/control") == {"stop": False}
    walk_tracking(ask, path)
    ask("GET", path + "/spec", want=200, route="/v1/jobs/{job}/spec")
    ask("POST", path + "/retry", want=409, route="/v1/jobs/{job}/retry")
    ask("POST", path + "/hold", want=409, route="/v1/jobs/{job}/hold")
    assert ask("POST", path + "/release", want=200, route="/v1/jobs/{job}/release")["already"] == 1
    ask("DELETE", path, want=409, route="/v1/jobs/{job}")
    assert ask("POST", path + "/cancel", want=200, route="/v1/jobs/{job}/cancel")["done"] == 1
    home.wait_all()
    assert ask("POST", path + "/cancel", want=200, route="/v1/jobs/{job}/cancel")["already"] == 1
    ask("GET", path + "/explain", want=200, route="/v1/jobs/{job}/explain")
    ask("GET", path + "/events", want=200, route="/v1/jobs/{job}/events")
    for stream in ("out", "err"):
        text = ask("GET", f"/v1/jobs/{split}/logs?stream={stream}", want=200, route="/v1/jobs/{job}/logs")
        assert text == stream + "\n", text
    ask("GET", f"/v1/jobs/{job}/logs?stream=both", want=400, route="/v1/jobs/{job}/logs")
    assert ask("POST", path + "/retry", want=200, route="/v1/jobs/{job}/retry")["done"] == 1
    ask("POST", path + "/cancel", want=200, route="/v1/jobs/{job}/cancel")
    home.wait_all()
    ask("DELETE", path, want=204, route="/v1/jobs/{job}")
    for rest in ("", "/spec", "/explain", "/logs", "/metrics", "/events", "/control"):
        ask("GET", path + rest, want=404, route="/v1/jobs/{job}" + rest)
    for rest in ("/cancel", "/hold", "/release", "/retry"):
        ask("POST", path + rest, want=404, route="/v1/jobs/{job}" + rest)
    ask("POST", path + "/reports?run=1", line, want=404, route="/v1/jobs/{job}/reports")
    ask("DELETE", path, want=404, route="/v1/jobs/{job}")


def walk_tracking(ask, path):
    """Tags, notes and files of a job; projects; runs that are not ours."""
    one = "/v1/jobs/{job}"
    ask("POST", path + "/tags", {"name": "best", "value": "yes"}, want=200, route=one + "/tags")
    ask("POST", path + "/tags", {"name": ""}, want=400, route=one + "/tags")
    ask("POST", path + "/tags", {"name": 7}, want=400, route=one + "/tags")
    assert ask("GET", path, want=200, route=one)["tags"]["best"] == "yes"
    ask("DELETE", path + "/tags?name=best", want=200, route=one + "/tags")
    ask("DELETE", path + "/tags", want=400, route=one + "/tags")
    assert "best" not in ask("GET", path, want=200, route=one)["tags"]
    ask("POST", path + "/notes", {"text": "diverged", "author": "eve"}, want=200, route=one + "/notes")
    ask("POST", path + "/notes", {"text": ""}, want=400, route=one + "/notes")
    assert ask("GET", path + "/notes", want=200, route=one + "/notes")["items"][0]["author"] == "eve"
    files = ask("GET", path + "/artifacts", want=200, route=one + "/artifacts")["items"]
    assert files[0]["name"] == "model" and files[0]["bytes"] is None, files
    ask("GET", path + "/artifact?name=model", want=404, route=one + "/artifact")
    ask("GET", path + "/artifact", want=400, route=one + "/artifact")
    ask("POST", path + "/outside_end", {"failed": True}, want=409, route=one + "/outside_end")
    project = "/v1/projects/{name}"
    ask("PUT", "/v1/projects/vision", {"description": "# Vision"}, want=200, route=project)
    ask("PUT", "/v1/projects/vision", {"description": []}, want=400, route=project)
    ask("POST", "/v1/projects/vision/notes", {"text": "begun"}, want=200, route=project + "/notes")
    assert ask("GET", "/v1/projects/vision/notes", want=200, route=project + "/notes")["items"][0]["text"] == "begun"
    got = ask("GET", "/v1/projects/vision", want=200, route=project)
    assert (got["description"], got["notes"], got["total"]) == ("# Vision", 1, 0), got
    ask("GET", "/v1/projects/nobody", want=404, route=project)
    guest = ask("POST", "/v1/outside", {"name": "notebook", "project": "vision", "params": {"lr": 1}}, want=201)
    ask("POST", "/v1/outside", {"pid": 2**31 - 1}, want=400)
    ask("POST", "/v1/outside", {"id": "not one"}, want=400)
    ask("POST", "/v1/outside", {"id": guest["id"]}, want=409)
    end = f"/v1/jobs/{guest['number']}/outside_end"
    ask("POST", end, {"exit_code": 300}, want=400, route=one + "/outside_end")
    assert ask("POST", end, {"exit_code": 3}, want=200, route=one + "/outside_end")["done"] == 1
    assert ask("POST", end, {"exit_code": 3}, want=200, route=one + "/outside_end")["already"] == 1
    assert home.api("GET", f"/v1/jobs/{guest['number']}")["exit_code"] == 3


def walk_lists(ask):
    page = ask("GET", "/v1/jobs?limit=2", want=200)
    assert len(page["items"]) == 2 and page["next"]
    keys = set(spec["components"]["schemas"]["Job"]["properties"]) - {"columns"}  # only those asked for
    assert all(set(j) == keys for j in page["items"]), "a job has other keys than the file"
    ask("GET", f"/v1/jobs?limit=2&cursor={page['next']}", want=200)
    for query in ("limit=0", "limit=x", "filter=state%3Abogus", "state=bogus", "sort=bogus", "cursor=bogus"):
        ask("GET", "/v1/jobs?" + query, want=400)
    for sort in ("id", "number", "name", "state", "priority", "created", "started", "ended", "duration", "exit_code"):
        ask("GET", f"/v1/jobs?sort={sort}", want=200)
        ask("GET", f"/v1/jobs?sort=-{sort}", want=200)
    total = ask("GET", "/v1/jobs/summary", want=200)
    assert total["total"] == sum(v for k, v in total.items() if k != "total")
    ask("GET", "/v1/jobs/summary?project=none", want=200)
    ask("GET", "/v1/jobs/summary?state=bogus", want=400)
    for what in ("cancel", "hold", "release", "retry", "remove"):
        route = "/v1/jobs/" + what
        ask("POST", route, {"filter": "name~nothing-is-called-this"}, want=200)
        ask("POST", route, {}, want=400)
        ask("POST", route, {"filtre": "x"}, want=400)
        ask("POST", route, {"jobs": [999999]}, want=404)
    ask("GET", "/v1/events?follow=0", want=200)
    ask("GET", "/v1/events?follow=0&limit=0", want=400)
    ask("GET", "/v1/events?follow=0&job=999999", want=404)


def walk_leases(ask, one):
    ask("POST", "/v1/studies", {"name": "lent", "space": {"x": {"uniform": [0, 1]}}, "objective": {"minimize": "loss"}, "stop": "median", "trials": 1}, want=201)
    for bad in (0, 1.5, "x", 604801):
        ask("POST", "/v1/studies/lent/ask", {"n": 1, "lease": bad}, want=400, route=one + "/ask")
    got = ask("POST", "/v1/studies/lent/ask", {"n": 2, "lease": 600}, want=200, route=one + "/ask")
    assert got["leased"] == 1 and not got["exhausted"] and got["trials"][0]["hold"] == 1, got
    held = {"number": 1, "hold": 1}
    assert ask("POST", "/v1/studies/lent/renew", {"trials": [held]}, want=200, route=one + "/renew") == {"lost": []}
    assert ask("POST", "/v1/studies/lent/renew", {"trials": [{**held, "hold": 7}]}, want=200, route=one + "/renew") == {"lost": [1]}
    for bad, status in (([], 400), ([3], 400), ([{"hold": 1}], 400), ([{"number": 2}], 404), (None, 400)):
        ask("POST", "/v1/studies/lent/renew", {"trials": bad}, want=status, route=one + "/renew")
    assert ask("POST", "/v1/studies/lent/report", {**held, "step": 1, "value": 2}, want=200, route=one + "/report") == {"stop": False}
    assert ask("POST", "/v1/studies/lent/report", {"number": 1, "hold": 2, "step": 2, "value": 2}, want=200, route=one + "/report") == {"stop": True}
    trial = ask("GET", "/v1/studies/lent/trials", want=200, route=one + "/trials")["items"][0]
    assert (trial["hold"], trial["lease"]) == (1, 600), trial
    ask("POST", "/v1/studies/lent/tell", {"trials": [{**held, "hold": 2, "value": 1}]}, want=409, route=one + "/tell")
    ask("POST", "/v1/studies/lent/tell", {"trials": [{**held, "value": 1}]}, want=200, route=one + "/tell")
    ask("DELETE", "/v1/studies/lent", want=204, route=one)


def walk_objectives(ask, one, good):
    two = {**good, "name": "two", "objective": [{"minimize": "loss"}, {"maximize": "acc"}]}
    for change, word in (({"stop": "asha"}, "leave stop out"), ({"take": "best"}, "take"), ({"engine": "cmaes"}, "nsga2"), ({"objective": []}, "1 to 8"),
                         ({"objective": [{"minimize": "a"}] * 2}, "twice"), ({"objective": [3]}, "objective")):
        text = ask("POST", "/v1/studies", {**two, **change}, want=400)["error"]["message"]
        assert word in text, text
    assert ask("POST", "/v1/studies", two, want=201)["front"] == []
    asked = ask("POST", "/v1/studies/two/ask", {"n": 2}, want=200, route=one + "/ask")["trials"]
    for bad in ({"value": 1}, {"values": [1]}, {"values": [1, None]}, {"values": [1] * 9}, {"values": [1, 2], "pruned": True}):
        ask("POST", "/v1/studies/two/tell", {"trials": [{"number": 1, **bad}]}, want=400, route=one + "/tell")
    told = [{"number": 1, "values": [0.5, 0.25]}, {"number": 2, "values": [0.5, "nan"]}]
    ask("POST", "/v1/studies/two/tell", {"trials": told}, want=200, route=one + "/tell")
    about = ask("GET", "/v1/studies/two", want=200, route=one)
    assert about["best"] is None and about["front"] == [{"number": 1, "job": None, "values": [0.5, 0.25], "params": asked[0]["params"]}], about
    page = ask("GET", "/v1/studies/two/trials", want=200, route=one + "/trials")["items"]
    assert [(t["state"], t.get("values")) for t in page] == [("done", [0.5, 0.25]), ("failed", None)], page
    ask("DELETE", "/v1/studies/two", want=204, route=one)


def walk_study_logs(ask):
    one, log = "/v1/study-logs/{name}", "/v1/study-logs/a%20log"
    assert ask("GET", log, want=200, route=one) == {"items": [], "next": None}
    assert ask("POST", log, {"lines": [{"n": 1}, {"n": "two\n"}]}, want=200, route=one) == {"items": [], "next": None}
    after = ask("POST", log, {"lines": [{"n": None}], "after": 1}, want=200, route=one)
    assert after == {"items": [{"n": "two\n"}, {"n": None}], "next": None}, after
    assert ask("POST", log, {"lines": [], "after": 2}, want=200, route=one)["items"] == [{"n": None}]
    assert ask("GET", log + "?limit=2", want=200, route=one) == {"items": [{"n": 1}, {"n": "two\n"}], "next": 2}
    assert ask("GET", log + "?after=2", want=200, route=one) == {"items": [{"n": None}], "next": None}
    for bad in ({}, {"lines": {}}, {"lines": [1]}, {"lines": [{}], "after": -1}, {"lines": [], "x": 1}):
        ask("POST", log, bad, want=400, route=one)
    for bad in ("?after=x", "?limit=0"):
        ask("GET", log + bad, want=400, route=one)
    ask("POST", "/v1/study-logs/" + "n" * 300, {"lines": [{}]}, want=400, route=one)
    assert ask("GET", "/v1/study-logs", want=200) == {"items": [{"name": "a log", "lines": 3}]}
    ask("DELETE", log, want=204, route=one)
    ask("DELETE", "/v1/study-logs/" + "n" * 300, want=400, route=one)
    assert ask("GET", "/v1/study-logs", want=200) == {"items": []}


def walk_studies(ask):
    one = "/v1/studies/{name}"
    good = {"name": "s", "space": {"x": {"uniform": [0, 1]}, "o": ["adam", "sgd"]}, "objective": {"minimize": "loss"}, "trials": 4}
    made = ask("POST", "/v1/studies", good, want=201)
    assert ask("POST", "/v1/studies", good, want=200) == made, "the same again is the same answer"
    ask("POST", "/v1/studies", {**good, "seed": 7}, want=409)
    for change, word in (({"space": None}, "space"), ({"space": {"x": {"uniform": [1]}}}, "x"), ({"objective": {}}, "objective"),
                         ({"engine": "magic"}, "engine"), ({"trials": 0}, "trials"), ({"take": "x"}, "take"), ({"name": "a/b"}, "name"),
                         ({"name": ""}, "name"), ({"trails": 3}, "trials"), ({"job": {"comand": 1}}, "command"),
                         ({"job": {"command": ["true"], "cwd": "/", "after": [1]}}, "after"), ({"constraints": ["y <"]}, "y")):
        text = ask("POST", "/v1/studies", {**good, "name": "bad", **change}, want=400)["error"]["message"]
        assert word in text and "\n" not in text, text
    ask("POST", "/v1/studies", {**good, "name": "child", "from": "nobody"}, want=404)
    asked = ask("POST", "/v1/studies/s/ask", {"n": 2}, want=200, route=one + "/ask")["trials"]
    assert [t["number"] for t in asked] == [1, 2]
    told = {"trials": [{"number": 1, "value": 0.5}, {"number": 2, "value": "nan"}], "ask": 1}
    answer = ask("POST", "/v1/studies/s/tell", told, want=200, route=one + "/tell")
    assert answer["told"] == 2 and [t["number"] for t in answer["trials"]] == [3]
    for bad, status in (({"number": 1, "value": 1}, 409), ({"number": 9, "value": 1}, 404), ({"number": 3}, 400), ({"value": 1}, 400),
                        ({"number": 3, "value": None}, 400)):
        ask("POST", "/v1/studies/s/tell", {"trials": [bad]}, want=status, route=one + "/tell")
    assert ask("POST", "/v1/studies/s/enqueue", {"params": {"x": 0.25, "o": "sgd"}}, want=201, route=one + "/enqueue") == {"number": 4}
    for bad in ({"x": 2, "o": "sgd"}, {"x": 0.5}, {"x": 0.5, "o": "sgd", "z": 1}):
        ask("POST", "/v1/studies/s/enqueue", {"params": bad}, want=400, route=one + "/enqueue")
    last = ask("POST", "/v1/studies/s/ask", {"n": 5}, want=200, route=one + "/ask")
    assert last == {"trials": [{"number": 4, "params": {"x": 0.25, "o": "sgd"}}], "exhausted": True}
    walk_leases(ask, one)
    walk_objectives(ask, one, good)
    page = ask("GET", "/v1/studies/s/trials?limit=2", want=200, route=one + "/trials")
    assert [t["state"] for t in page["items"]] == ["done", "failed"] and page["next"] == 2
    assert [t["number"] for t in ask("GET", "/v1/studies/s/trials?after=2", want=200, route=one + "/trials")["items"]] == [3, 4]
    ask("PATCH", "/v1/studies/s", {"trials": "x"}, want=400, route=one)
    assert ask("PATCH", "/v1/studies/s", {"trials": None, "parallel": 2, "paused": True}, want=200, route=one)["trials"] is None
    best = ask("GET", "/v1/studies/s", want=200, route=one)["best"]
    assert best == {"number": 1, "job": None, "value": 0.5, "params": asked[0]["params"]}
    warm = ask("POST", "/v1/studies", {**good, "name": "child", "from": "s"}, want=201)
    assert warm["counts"]["done"] == 1 and warm["best"]["value"] == 0.5
    assert len(ask("GET", "/v1/studies", want=200)["items"]) == 2
    jobs = {**good, "name": "j", "space": {"x": [1]}, "job": {"command": ["true"], "cwd": "/"}}
    jobs["job"]["env"] = {"HF_TOKEN": "hidden"}
    ask("POST", "/v1/studies", jobs, want=201)
    ask("POST", "/v1/studies", jobs, want=200)  # a secret is sealed anew each time
    ask("POST", "/v1/studies", {**jobs, "job": {**jobs["job"], "command": ["false"]}}, want=409)
    ask("POST", "/v1/studies/j/ask", {}, want=409, route=one + "/ask")
    ask("POST", "/v1/studies", {**good, "name": "bad", "stop": "magic"}, want=400)
    ask("POST", "/v1/studies", {**good, "name": "stop", "stop": {"patient": {"steps": 2}}}, want=201)
    ask("POST", "/v1/studies/stop/ask", {"n": 1}, want=200, route=one + "/ask")
    says = [ask("POST", "/v1/studies/stop/report", {"number": 1, "step": i, "value": 1}, want=200, route=one + "/report") for i in range(5)]
    assert says[0] == {"stop": False} and says[-1] == {"stop": True}, says
    ask("POST", "/v1/studies/stop/report", {"number": 1, "step": -1, "value": 1}, want=400, route=one + "/report")
    ask("POST", "/v1/studies/stop/report", {"number": 9, "step": 1, "value": 1}, want=404, route=one + "/report")
    ask("POST", "/v1/studies/s/report", {"number": 3, "step": 1, "value": 1}, want=409, route=one + "/report")
    for name in ("s", "j", "child", "stop"):
        ask("DELETE", f"/v1/studies/{name}?force=true", want=204, route=one)
    for method, path in (("GET", ""), ("PATCH", ""), ("DELETE", ""), ("GET", "/trials"), ("POST", "/ask"), ("POST", "/tell"), ("POST", "/report"), ("POST", "/enqueue")):
        ask(method, "/v1/studies/s" + path, {} if method in ("POST", "PATCH") else None, want=404, route=one + path)


def walk_schedules(ask):
    job = {"command": ["true"], "cwd": "/"}
    good = {"name": "nightly", "cron": "30 2 * * 1-5", "timezone": "CET-1CEST,M3.5.0,M10.5.0/3", "job": job}
    made = ask("POST", "/v1/schedules", good, want=201)
    assert len(made["next"]) == 5 and made["job"] == job and made["overlap"] == "skip" and made["catch_up"] == "latest"
    assert ask("POST", "/v1/schedules", good, want=201) == made, "the same again is the same answer"
    ask("POST", "/v1/schedules", {**good, "cron": "* * * * *"}, want=409)
    for change, word in (({"cron": "61 * * * *"}, "minute"), ({"cron": None}, "cron"), ({"job": None}, "job"), ({"crom": 1}, "cron"),
                         ({"job": {"command": []}}, "command"), ({"job": {**job, "after": [1]}}, "after"), ({"name": "a/b"}, "name"),
                         ({"name": ""}, "name"), ({"name": "a\0b"}, "name"), ({"name": "x" * 201}, "name"), ({"timezone": "Nowhere"}, "Nowhere"), ({"overlap": "x"}, "overlap"),
                         ({"catch_up": "all", "overlap": "skip"}, "queue"), ({"paused": 1}, "paused"), ({"job": {"comand": 1}}, "command")):
        text = ask("POST", "/v1/schedules", {**good, "name": "bad", **change}, want=400)["error"]["message"]
        assert word in text and "\n" not in text, text
    listed = ask("GET", "/v1/schedules", want=200)["items"]
    assert [s["name"] for s in listed] == ["nightly"] and listed[0]["next"] == made["next"][:1] and "job" not in listed[0]
    one = "/v1/schedules/{name}"
    paused = ask("POST", "/v1/schedules/nightly/pause", want=200, route=one + "/pause")
    assert paused["paused"] and paused["next"] == []
    ran = ask("POST", "/v1/schedules/nightly/run", headers={"Idempotency-Key": "ran"}, want=201, route=one + "/run")
    assert ask("POST", "/v1/schedules/nightly/run", headers={"Idempotency-Key": "ran"}, want=200, route=one + "/run") == ran
    assert ask("GET", f"/v1/jobs/{ran['first']}", want=200, route="/v1/jobs/{job}")["schedule"] == "nightly"
    assert [j["number"] for j in ask("GET", "/v1/jobs?filter=cron:nightly", want=200)["items"]] == [ran["first"]]
    assert not ask("POST", "/v1/schedules/nightly/resume", want=200, route=one + "/resume")["paused"]
    swept = {"cron": {"hour": 7}, "overlap": "replace", "paused": True,
             "job": {"command": ["echo", "{lr}"], "cwd": "/", "params": {"lr": [1, 2]}}}
    changed = ask("PUT", "/v1/schedules/nightly", swept, want=200, route=one)
    assert changed["paused"] and changed["timezone"] is None and changed["last_job"] == ran["first"]
    ask("PUT", "/v1/schedules/nightly", {**swept, "name": "other"}, want=400, route=one)
    assert ask("POST", "/v1/schedules/nightly/run", want=201, route=one + "/run")["count"] == 2
    assert ask("GET", "/v1/schedules/nightly?user=nobody-of-this-name", want=404, route=one)
    ask("DELETE", "/v1/schedules/nightly", want=204, route=one)
    for method, path in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"), ("POST", "/run")):
        ask(method, "/v1/schedules/nightly" + path, good if method == "PUT" else None, want=404, route=one + path)


def walk_hooks(ask):
    good = {"name": "team", "on": ["failure", "waiting>2h"], "do": "mail:me@example.org", "filter": "project:x"}
    made = ask("POST", "/v1/hooks", good, want=201)
    assert made["on"] == good["on"] and made["scope"] == "job" and not made["paused"] and not made["has_secret"], made
    ask("POST", "/v1/hooks", good, want=409)
    for change, word in (({"on": ["never"]}, "event"), ({"do": None}, "action"), ({"do": "fax:1"}, "action"), ({"name": "a b"}, "name"),
                         ({"do": "mail:a@b,c@d"}, "address"), ({"do": "webhook:x"}, "URL"), ({"scope": "study"}, "scope"), ({"one": 1}, "on"),
                         ({"filter": "state:"}, "filter"), ({"paused": 1}, "paused"), ({"scope": "batch"}, "waiting"), ({"secret": 1}, "secret")):
        text = ask("POST", "/v1/hooks", {**good, "name": "bad", **change}, want=400)["error"]["message"]
        assert word in text and "\n" not in text, text
    secret = ask("POST", "/v1/hooks", {"name": "web", "do": "webhook:http://127.0.0.1:1/"}, want=201)["secret"]
    listed = ask("GET", "/v1/hooks", want=200)["items"]
    assert [h["name"] for h in listed] == ["team", "web"] and secret not in json.dumps(listed) and listed[1]["has_secret"]
    one = "/v1/hooks/{name}"
    assert ask("GET", "/v1/hooks/team", want=200, route=one) == made
    changed = ask("PUT", "/v1/hooks/team", {"on": "end", "scope": "batch"}, want=200, route=one)
    assert changed["on"] == ["end"] and changed["scope"] == "batch" and changed["filter"] == "project:x", changed
    ask("PUT", "/v1/hooks/team", {"name": "other"}, want=400, route=one)
    assert ask("POST", "/v1/hooks/team/pause", want=200, route=one + "/pause")["paused"]
    assert not ask("POST", "/v1/hooks/team/resume", want=200, route=one + "/resume")["paused"]
    tested = ask("POST", "/v1/hooks/web/test", want=200, route=one + "/test")
    assert not tested["sent"] and tested["error"], tested
    for name in ("team", "web"):
        ask("DELETE", f"/v1/hooks/{name}", want=204, route=one)
    for method, path in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "/pause"), ("POST", "/resume"), ("POST", "/test")):
        ask(method, "/v1/hooks/team" + path, good if method == "PUT" else None, want=404, route=one + path)


def walk_groups(ask, node):
    ask("GET", "/v1/queues", want=200)
    ask("POST", "/v1/queues/night/pause", want=200, route="/v1/queues/{name}/pause")
    assert any(q["name"] == "night" and q["paused"] for q in ask("GET", "/v1/queues")["items"])
    ask("POST", "/v1/queues/night/resume", want=200, route="/v1/queues/{name}/resume")
    ask("POST", "/v1/queues/" + "x" * 300 + "/pause", want=400, route="/v1/queues/{name}/pause")
    ask("POST", "/v1/queues/" + "x" * 300 + "/keep", want=400, route="/v1/queues/{name}/keep")
    ask("GET", "/v1/nodes", want=200)
    assert ask("POST", f"/v1/nodes/{node}/drain", want=200, route="/v1/nodes/{name}/drain")["drained"]
    assert not ask("POST", f"/v1/nodes/{node}/undrain", want=200, route="/v1/nodes/{name}/undrain")["drained"]
    ask("POST", "/v1/nodes/elsewhere/drain", want=404, route="/v1/nodes/{name}/drain")
    ask("GET", f"/v1/nodes/{node}", want=200, route="/v1/nodes/{name}")
    ask("GET", "/v1/nodes/elsewhere", want=404, route="/v1/nodes/{name}")
    ask("POST", "/v1/nodes", {"url": "gopher://x"}, want=400)
    added = ask("POST", "/v1/nodes", {"url": "ssh://nobody@127.0.0.1:1", "name": "far", "slots": 2}, want=201)
    assert added["state"] == "away" and added["url"] == "ssh://nobody@127.0.0.1:1"
    ask("POST", "/v1/nodes", {"url": "ssh://nobody@127.0.0.1:1", "name": "far"}, want=409)
    ask("DELETE", f"/v1/nodes/{node}", want=409, route="/v1/nodes/{name}")
    ask("DELETE", "/v1/nodes/far", want=204, route="/v1/nodes/{name}")
    ask("GET", "/v1/projects", want=200)
    batches = ask("GET", "/v1/batches", want=200)
    assert any(b["name"] == "swept" and b["count"] == 3 for b in batches["items"])
    one = ask("GET", "/v1/batches?limit=1", want=200)
    assert len(one["items"]) == 1 and one["next"]
    ask("GET", f"/v1/batches?limit=1&cursor={one['next']}", want=200)
    ask("GET", "/v1/batches?limit=0", want=400)


if __name__ == "__main__":
    harness.main(__name__)
