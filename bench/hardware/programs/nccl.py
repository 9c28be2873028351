"""A sum over all cards of the slice by NCCL, one process for each."""

import json
import os
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as processes


def add(rank: int, size: int) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", rank=rank, world_size=size)
    ones = torch.ones(1 << 20, device="cuda")
    dist.all_reduce(ones)
    torch.cuda.synchronize()
    dist.destroy_process_group()
    sys.exit(0 if float(ones[0]) == size else 1)


if __name__ == "__main__":
    count = torch.cuda.device_count()
    processes.spawn(add, (count,), count)
    print(json.dumps({"works": True, "processes": count, "nccl": ".".join(map(str, torch.cuda.nccl.version()))}))
