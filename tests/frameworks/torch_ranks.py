"""torch.distributed with the variables of the scheduler alone: two ranks add up their numbers."""
import os

import torch
import torch.distributed as dist

backend = os.environ["PL_TORCH_DISTRIBUTED_BACKEND"]
dist.init_process_group(backend)  # RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
value = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(value)
print("sum", int(value), "of", dist.get_world_size(), "ranks by", dist.get_backend(), flush=True)
dist.destroy_process_group()
