"""Hooks into a batch that runs: subclass `BatchCallback` and override what you need."""

import json
import urllib.request


class BatchCallback:
    def on_start(self, batch):
        """Once, before anything runs.  An exception ends the run."""

    def on_job_start(self, batch, job, executor):
        pass

    def on_job_succeed(self, batch, job, executor, elapsed):
        pass

    def on_job_failed(self, batch, job, executor, elapsed):
        pass

    def on_job_break(self, batch, job, exception):
        """It could not be started."""

    def on_finish(self, batch, elapsed):
        """Once, when all jobs have ended; `elapsed` is seconds."""


class ConsoleCallback(BatchCallback):
    """Prints the name of every hook."""

    def on_start(self, batch):
        print("on_start")

    def on_job_start(self, batch, job, executor):
        print("on_job_start")

    def on_job_succeed(self, batch, job, executor, elapsed):
        print("on_job_succeed")

    def on_job_failed(self, batch, job, executor, elapsed):
        print("on_job_failed")

    def on_job_break(self, batch, job, exception):
        print("on_job_break")

    def on_finish(self, batch, elapsed):
        print("on_finish")


class VisDOMCallback(BatchCallback):
    """Draws five pictures on a Visdom server: status, last durations, histogram, durations over time, jobs per node.

    Needs the package ``visdom``.  The data comes from ``/hyperctl/api/batch/views`` of the batch, which anybody may ask.
    """

    def __init__(self, n_tail_jobs=100, elapsed_cut_bins=10, datetime_qcut_bins=10):
        import visdom

        self.query = "tail=%d&bins=%d&time_bins=%d" % (n_tail_jobs, elapsed_cut_bins, datetime_qcut_bins)
        self.vis = visdom.Visdom()

    def views(self, batch):
        with urllib.request.urlopen("%s/hyperctl/api/batch/views?%s" % (batch.portal, self.query)) as reply:
            return json.loads(reply.read())["data"]

    def draw(self, batch):
        v = self.views(batch)
        env = batch.name

        def opts(title, **more):
            return dict(title=title, **more)

        status = {k: n for k, n in v["status"].items() if n}
        if status:
            self.vis.pie(X=list(status.values()), win="status", env=env, opts=opts("status", legend=list(status)))
        if v["tail"]:
            self.vis.bar(X=[j["elapsed"] for j in v["tail"]], win="tail", env=env,
                         opts=opts("last durations", rownames=[j["name"] for j in v["tail"]]))
        if v["histogram"]:
            self.vis.bar(X=[b["count"] for b in v["histogram"]], win="histogram", env=env,
                         opts=opts("durations", rownames=["%.3g-%.3g" % (b["from"], b["to"]) for b in v["histogram"]]))
        if v["timeline"]:
            names = [str(i + 1) for i in range(len(v["timeline"]))]
            marks = ("min", "q1", "median", "q3", "max")
            self.vis.boxplot(X=[[b[m] for b in v["timeline"]] for m in marks], win="timeline", env=env,
                             opts=opts("durations over time", legend=names))
        if v["nodes"]:
            kinds = ("succeed", "failed", "running")
            self.vis.bar(X=[[n[k] for k in kinds] for n in v["nodes"]], win="nodes", env=env,
                         opts=opts("jobs per node", stacked=True, legend=list(kinds), rownames=[n["node"] for n in v["nodes"]]))

    def on_job_start(self, batch, job, executor):
        self.draw(batch)

    def on_job_succeed(self, batch, job, executor, elapsed):
        self.draw(batch)

    def on_job_failed(self, batch, job, executor, elapsed):
        self.draw(batch)

    def on_finish(self, batch, elapsed):
        self.draw(batch)
