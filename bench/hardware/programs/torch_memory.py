"""PyTorch: what it is told, and that asking for more raises its own OutOfMemoryError and leaves it usable."""

import json

import torch

free, total = torch.cuda.mem_get_info()
kept = torch.empty(total // 4, dtype=torch.uint8, device="cuda")
try:
    torch.empty(total, dtype=torch.uint8, device="cuda")
    refused = False
except torch.OutOfMemoryError:
    refused = True
usable = int((kept[:8].fill_(3)).sum()) == 24
properties = torch.cuda.get_device_properties(0).total_memory
print(json.dumps({"total": total, "refused": refused and usable, "properties": properties, "torch": torch.__version__}))
