"""scikit-learn without a GPU: a classifier that is fitted epoch by epoch, killed once, and resumed from its file."""
import os
import pickle
import signal

import numpy
from kubernetesdlprofile import kubeprofiler
from sklearn.linear_model import SGDClassifier

prof = kubeprofiler.KubeProfiler()
path = os.path.join(prof.root_dir, "model.pickle")
rng = numpy.random.default_rng(3)
x = rng.normal(size=(prof.TRAINING_SET_SIZE, 4))
y = (x.sum(axis=1) > 0).astype(int)
model, epochs = SGDClassifier(random_state=0), 0
if prof.RESTARTED:
    with open(path, "rb") as f:
        model, epochs = pickle.load(f)
for epoch in range(prof.EPOCHS_DONE, prof.EPOCHS):
    prof.start_epoch()
    for at in range(0, len(x), prof.BATCH_SIZE):
        model.partial_fit(x[at:at + prof.BATCH_SIZE], y[at:at + prof.BATCH_SIZE], classes=[0, 1])
        prof.measure()
    if epoch == 2 and os.environ["SCHED_ATTEMPT"] == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    prof.end_epoch()
    epochs += 1
    with open(path + ".new", "wb") as f:
        pickle.dump((model, epochs), f)
    os.replace(path + ".new", path)
print("fitted", epochs, "epochs, score", model.score(x, y), "steps", int(model.t_) - 1, flush=True)
