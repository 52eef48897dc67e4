"""What is wrong with a history; nothing, if all is well.

A history is what clients recorded while they used one daemon under faults:

  plans     {name of a job: what its command exits with, None = it ends only when stopped}
  numbers   {name: number of the job}, as far as anybody learned it
  ops       {name: [Op…]} of single jobs
  lists     [(client, begin, end, {name: Job})]: all jobs at one moment
  pages     [(client, begin, end, [event…])]: all events from the first to some moment
  streams   [[event…]…]: what followers of the event stream heard, each from the first event on
  runs      [(begin, end, name, {run: (state, exit code)})]: runs of single jobs, as somebody saw them
  marks     [run…]: what each execution of a command wrote, "number.run"
"""

import collections
from dataclasses import dataclass, field

import model
from model import Op


@dataclass
class History:
    plans: dict = field(default_factory=dict)
    numbers: dict = field(default_factory=dict)
    ops: dict = field(default_factory=lambda: collections.defaultdict(list))
    lists: list = field(default_factory=list)
    pages: list = field(default_factory=list)
    streams: list = field(default_factory=list)
    runs: list = field(default_factory=list)
    marks: list = field(default_factory=list)


ENDED = ("succeeded", "failed", "cancelled", "lost")
# What may follow what in the events of one job.  The start of a short job may be reported late.
FOLLOWS = {
    None: ("queued",),
    "queued": ("starting", "held", "cancelled"),
    "held": ("queued", "cancelled"),
    "starting": ("running", "stopping", *ENDED),
    "running": ("stopping", *ENDED),
    "stopping": ("running", "stopping", *ENDED),
    **{state: ("queued", "removed") for state in ENDED},
    "removed": (),
}


def state_of(event):
    """The state that an event tells of, None when it is about something else."""
    kind = event["kind"]
    return kind[4:] if kind.startswith("job.") else None


def of_job(events, number):
    return [e for e in events if e["job"] is not None and e["job"] <= number <= e["last"]]


def observations(h, name):
    """What lists and pages of events say about one job, as reads of it."""
    number = h.numbers.get(name)
    for client, begin, end, rows in h.lists:
        yield Op(client, "list", begin, end, rows.get(name, 404))
    for client, begin, end, events in h.pages:
        states = [state_of(e) for e in of_job(events, number)] if number else []
        yield Op(client, "events", begin, end, 404 if not states or states[-1] == "removed" else states[-1])


def check_order(events, what):
    """Numbers without gaps, in order, and for each job only what may follow."""
    numbers = [e["seq"] for e in events]
    if numbers != list(range(1, len(numbers) + 1)):
        at = next(i for i, n in enumerate(numbers) if n != i + 1)
        yield f"{what}: event {numbers[at]} stands at place {at + 1}"
    last, runs = {}, collections.Counter()
    for e in events:
        state = state_of(e)
        for job in range(e["job"], e["last"] + 1) if state else ():
            before = last.get(job)
            if state not in FOLLOWS[before]:
                yield f"{what}: event {e['seq']}: job {job} is {state} after {before}: {e['data']}"
            last[job] = state
            if state in ENDED and "run" in e["data"]:
                runs[job, e["data"]["run"]] += 1
    for (job, run), n in runs.items():
        if n > 1:
            yield f"{what}: run {job}.{run} ended {n} times"


def check_events(h):
    """Every page and stream is the beginning of one log."""
    told = [(f"page of {client}", events) for client, _, _, events in h.pages]
    told += [(f"stream {i}", events) for i, events in enumerate(h.streams)]
    log = {}
    for what, events in told:
        for e in events:
            if log.setdefault(e["seq"], e) != e:
                yield f"{what}: event {e['seq']} is {e} and was {log[e['seq']]}"
    yield from check_order([log[n] for n in sorted(log)], "the log")
    for what, events in told:
        if [e["seq"] for e in events] != list(range(1, len(events) + 1)):
            yield f"{what}: {[e['seq'] for e in events]} has gaps"


def check_runs(h):
    """A run has one outcome, the right one, and its command was executed at most once."""
    outcomes, heard = {}, {}  # heard: when somebody first knew the outcome
    codes = {str(n): h.plans[name] for name, n in h.numbers.items()}
    for begin, end, name, runs in sorted(h.runs, key=lambda r: r[1]):
        for run, (state, code) in runs.items():
            if state in ("starting", "running"):
                if heard.get((name, run), end) < begin:
                    yield f"run {run} of {name} is {state} after it was {outcomes[name, run]}"
                continue
            heard.setdefault((name, run), end)
            if outcomes.setdefault((name, run), (state, code)) != (state, code):
                yield f"run {run} of {name} ended as {outcomes[name, run]} and as {(state, code)}"
            if state == "exited" and code != h.plans[name]:
                yield f"run {run} of {name} exited with {code} instead of {h.plans[name]}"
    times = collections.Counter(h.marks)
    for mark, n in times.items():
        if n > 1:
            yield f"run {mark} was executed {n} times"
        if mark.split(".")[0] not in codes:
            yield f"run {mark} was executed, and nobody submitted its job"
    for (name, run), (state, _) in outcomes.items():
        if state == "exited" and f"{h.numbers[name]}.{run}" not in times:
            yield f"run {run} of {name} exited, and its command was never executed"


def check(h):
    """A list of complaints."""
    wrong = list(check_events(h)) + list(check_runs(h))
    for name, code in h.plans.items():
        ops = h.ops[name] + list(observations(h, name))
        bad = model.explain(ops, code)
        if bad:
            near = "\n  ".join(str(o) for o in sorted(ops, key=lambda o: o.begin)
                               if o.begin <= (bad.end or bad.begin) and (o.end is None or o.end >= bad.begin - 200_000_000))
            wrong.append(f"job {h.numbers.get(name)} ({name}, exits with {code}): nothing explains\n  {bad}\n  after\n  {near}")
    return wrong
