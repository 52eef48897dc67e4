"""TensorFlow's workers find each other by TF_CONFIG, one process per GPU."""
import os

os.environ["CUDA_VISIBLE_DEVICES"] = ""  # the GPUs of this test are stand-ins
import tensorflow as tf  # noqa: E402

strategy = tf.distribute.MultiWorkerMirroredStrategy()
total = strategy.run(lambda: tf.distribute.get_replica_context().all_reduce("sum", tf.constant(1)))
print("replicas", strategy.num_replicas_in_sync, "sum", int(strategy.experimental_local_results(total)[0]), flush=True)
