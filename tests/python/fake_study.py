"""Plays the routes of one study on a FakeDaemon: proposals by a counter, results kept."""

import json
import threading


def error(status, code, message):
    return status, {"error": {"code": code, "message": message}}


class FakeStudy:
    """`lose_after(verb)` carries out the next request of that kind, then answers as a daemon that dies would."""

    def __init__(self, daemon, limit=None):
        self.daemon = daemon
        self.body = None
        self.limit = limit
        self.trials = {}
        self.stops = set()  # numbers whose reports are answered by stop
        self.lose = set()
        self.taken = set()  # numbers that another client has by now
        self.renewed = threading.Semaphore(0)  # one for each renewal
        self.lock = threading.RLock()
        daemon.routes["POST", "/v1/studies"] = self.create

    def locked(self, verb, serve):
        def route(body, query):
            with self.lock:
                status, answer = serve(json.loads(body) if body else None, query)
            if verb in self.lose:
                self.lose.discard(verb)
                return error(503, "unavailable", "the daemon is ending")
            return status, answer

        return route

    def create(self, body, query):
        sent = json.loads(body)
        if self.body is not None and self.body != sent:
            return error(409, "conflict", "study %s has another space" % sent["name"])
        fresh, self.body = self.body is None, sent
        self.limit = sent.get("trials", self.limit)
        path = "/v1/studies/" + sent["name"]
        routes = self.daemon.routes
        routes["GET", path] = self.locked("get", lambda b, q: (200, self.record()))
        routes["GET", path + "/trials"] = self.locked("trials", self.page)
        for verb in ("ask", "tell", "report", "renew", "enqueue"):
            routes["POST", path + "/" + verb] = self.locked(verb, getattr(self, verb))
        return 201 if fresh else 200, self.record()

    def record(self):
        states = [t["state"] for t in self.trials.values()]
        done = [t for t in self.trials.values() if t["state"] == "done"]
        sign = 1 if "minimize" in self.body["objective"] else -1
        best = min(done, key=lambda t: sign * t["value"], default=None)
        return {
            **self.body,
            "engine": self.body.get("engine", "auto"),
            "state": "running",
            "counts": {s: states.count(s) for s in ("running", "done", "failed", "pruned", "waiting")},
            "best": best and {k: best[k] for k in ("number", "job", "value", "params")},
        }

    def page(self, body, query):
        asked = dict(p.split("=") for p in query.split("&"))
        after, limit = int(asked["after"]), int(asked["limit"])
        rows = [t for n, t in sorted(self.trials.items()) if n > after]
        return 200, {"items": rows[:limit], "next": rows[limit - 1]["number"] if len(rows) > limit else None}

    def ask(self, body, query):
        found = [t for t in self.trials.values() if t["state"] == "waiting"][: body["n"]]
        for t in found:
            t["state"] = "running"
        while len(found) < body["n"] and (self.limit is None or len(self.trials) < self.limit):
            found.append(self.add({"x": len(self.trials) + 1}, "running"))
        hold = {"hold": 1} if body.get("lease") else {}
        answer = {"trials": [{"number": t["number"], "params": t["params"], **hold} for t in found]}
        if len(found) < body["n"]:
            answer["exhausted"] = True
        return 200, answer

    def add(self, params, state):
        number = len(self.trials) + 1
        self.trials[number] = {"number": number, "state": state, "value": None, "job": None, "params": params, "reason": None}
        return self.trials[number]

    def tell(self, body, query):
        for r in body["trials"]:
            if r["number"] in self.taken:
                return error(409, "conflict", "trial %d was given to another client" % r["number"])
            if self.trials[r["number"]]["state"] != "running":
                return error(409, "conflict", "trial %d has a result" % r["number"])
        for r in body["trials"]:
            state = "failed" if r.get("failed") else "pruned" if r.get("pruned") else "done"
            self.trials[r["number"]].update(state=state, value=r.get("value"), reason=r.get("reason"))
        more = self.ask({"n": body["ask"], "lease": body.get("lease")}, "")[1] if body.get("ask") else {"trials": []}
        return 200, {"told": len(body["trials"]), **more}

    def report(self, body, query):
        return 200, {"stop": body["number"] in self.stops}

    def renew(self, body, query):
        self.renewed.release()
        return 200, {"lost": [t["number"] for t in body["trials"] if t["number"] in self.taken]}

    def enqueue(self, body, query):
        return 200, {"number": self.add(body["params"], "waiting")["number"]}
