import foundations

params = foundations.load_parameters()

# Simulates a training: more epochs and wider layers give better results.
loss = 1.0
for epoch in range(params["epochs"]):
    loss *= 0.95
    foundations.log_metric("loss", round(loss, 5))
    if loss < params["early_stopping_tolerance"]:
        break
width = sum(params["layer_shapes"]) / len(params["layer_shapes"])
foundations.log_metric("accuracy", round(1 - loss * (1 - width / 1024), 4))
foundations.set_tag("batch", params["batch_size"])
