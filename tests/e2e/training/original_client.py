"""The wire behaviour of the original library, with its quirks, written from its description.

A scheduler that serves scripts in old images must cope with all of this: no token, a new connection
per request and no time-out; a thread for each step; a mean that never restarts and counts the pauses
between epochs; timestamps in local time; device memory by its own pid only, of the last device that
matches; a missing variable is fatal; ckpt_path exists only in a restarted job.
"""

import datetime
import http.client
import json
import os
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree


def call(method, host, path, body=None):
    """As plain calls of an HTTP package do: connect, ask, close."""
    connection = http.client.HTTPConnection(host)
    headers = {"Accept-Encoding": "gzip, deflate", "Accept": "*/*", "Connection": "keep-alive"}
    if body is not None:
        headers["Content-Type"] = "application/json"
        body = json.dumps(body).encode()
    try:
        connection.request(method, path, body, headers)
        return connection.getresponse().read().decode()
    finally:
        connection.close()


class KubeProfiler:
    def __init__(self, job_manager_hostname, db_hostname):
        self.job_manager, self.store = job_manager_hostname, db_hostname
        env = os.environ
        self.JOBID = env["JOB_UUID"]
        self.RESTARTED = env.get("JOB_RESTARTED") != "FALSE"
        self.RANK = int(env["NODE_RANK"])
        self.LOCAL_RANK = int(env.get("LOCAL_RANK", -1))
        self.NUM_GPUS = int(env["NUM_GPUS"])
        self.NUM_NODES = int(env["NUM_NODES"])
        self.NODE_LIST = env["NODELIST"]
        self.BATCH_SIZE = int(env["BATCH_SIZE"])
        self.EPOCHS = int(env["EPOCHS_TO_BE_DONE"])
        self.EPOCHS_DONE = int(env["EPOCHS_DONE"])
        self.TRAINING_SET_SIZE = int(env["TRAINING_SET_SIZE"])
        self.PROFILE_EACH = int(env["HEARTBEAT_FREQ"])
        self.epoch = self.EPOCHS_DONE
        self.iterationPerEpoch = self.TRAINING_SET_SIZE // (self.BATCH_SIZE * self.NUM_GPUS * self.NUM_NODES)
        self.maxIterations = self.iterationPerEpoch * self.EPOCHS
        self.has_to_stop = False
        self.count, self.mean, self.last = 0, 0.0, None
        self.began = 0.0
        # The one difference: without a container there is no /snapshots of its own.
        self.root_dir = os.path.join(env.get("SCHED_ROOT_SNAPSHOTS", "/snapshots"), self.JOBID)
        if self.RESTARTED:
            self.ckpt_path = self.first_checkpoint()
        else:
            os.mkdir(self.root_dir)

    def first_checkpoint(self):
        """The first file of the highest version; otherwise a name that may not exist."""
        logs = os.path.join(self.root_dir, "lightning_logs")
        try:
            highest = max(os.listdir(logs), key=lambda name: int(name.split("_")[1]))
            folder, _, files = next(os.walk(os.path.join(logs, highest, "checkpoints")))
            return os.path.join(folder, files[0])
        except (OSError, ValueError, IndexError, StopIteration):
            return os.path.join(self.root_dir, "tf_ckpt")

    def start_epoch(self):
        self.began = time.time()
        try:
            if call("GET", self.job_manager, "/has_to_stop/" + self.JOBID) == "1" and self.epoch < self.EPOCHS - 1:
                self.has_to_stop = True
        except Exception as e:
            print(e)

    def measure(self):
        threading.Thread(target=self.count_step, args=(time.time(),)).start()
        if self.has_to_stop:
            sys.exit(0)

    def count_step(self, now):
        if self.last is None:
            self.last = now
            return
        self.count += 1
        self.mean += (now - self.last - self.mean) / self.count
        self.last = now
        if self.count % self.PROFILE_EACH == 0:
            try:
                call("POST", self.store, "/profiling/" + self.JOBID, self.facts())
            except Exception as e:
                print(e)

    def end_epoch(self):
        try:
            call("POST", self.store, "/profiling/" + self.JOBID, dict(self.facts(), epochDur=time.time() - self.began))
            self.epoch += 1
            call("POST", self.job_manager, "/end_epoch/" + self.JOBID, {"done": self.epoch})
        except Exception as e:
            print(e)

    def end(self):
        pass

    def facts(self):
        return {
            "jobid": self.JOBID,
            "timestamp": datetime.datetime.now().isoformat(),
            "iternum": self.count,
            "nodelist": self.NODE_LIST,
            "numgpu": self.NUM_GPUS,
            "rank": self.RANK,
            "meandur": self.mean,
            "gpumem": self.memory(),
        }

    @staticmethod
    def memory():
        used = 0
        text = subprocess.run(["nvidia-smi", "-q", "-x"], capture_output=True, check=True).stdout
        for process in xml.etree.ElementTree.fromstring(text).iter("process_info"):
            if int(process.findtext("pid")) == os.getpid():
                used = int(process.findtext("used_memory").split()[0])
        return used
