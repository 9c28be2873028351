"""torch.compile: Triton links against libcuda when it builds its helpers."""

import json

import torch


@torch.compile
def step(one, other):
    return torch.relu(one @ other).sum(dim=1) * 2


one, other = (torch.rand(256, 256, device="cuda") for _ in range(2))
close = torch.allclose(step(one, other), torch.relu(one @ other).sum(dim=1) * 2, rtol=1e-3)
print(json.dumps({"works": bool(close), "torch": torch.__version__}))
