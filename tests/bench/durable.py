"""What a client was told is on disk: SIGKILL right after the last of 200 replies."""

from rig import Daemon


def run(rig, table):
    count, worst = 200, 200
    for turn in range(rig.repeats):
        daemon = Daemon(rig, "durable-%d" % turn)
        daemon.pause("bulk")
        for _ in range(count):
            daemon.submit(command=["/bin/true"], queue="bulk")
        daemon.kill()
        daemon.start()
        worst = min(worst, daemon.count())
        daemon.close()
    table.row("acknowledged jobs after an immediate kill -9", "%d of %d" % (worst, count), "Slurm 22.05: 0 of 200", "", "all", worst == count)
