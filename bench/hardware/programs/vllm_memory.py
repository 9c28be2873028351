"""vLLM with nine tenths of the card, on a tiny model of random weights that is written here: no download."""

import json
import sys
from pathlib import Path

import torch
import vllm

folder = Path(sys.argv[1])
folder.mkdir(exist_ok=True)
shape = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4}
about = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 512, "torch_dtype": "float16"}
(folder / "config.json").write_text(
    json.dumps(shape | about | {"num_key_value_heads": 4, "max_position_embeddings": 512})
)
model = vllm.LLM(
    str(folder), load_format="dummy", skip_tokenizer_init=True, gpu_memory_utilization=0.9, enforce_eager=True
)
answer = model.generate([{"prompt_token_ids": [1, 2, 3]}], vllm.SamplingParams(max_tokens=4, detokenize=False))
free, total = torch.cuda.mem_get_info()
works = len(answer[0].outputs[0].token_ids) == 4
print(json.dumps({"works": works, "total": total, "used": total - free, "vllm": vllm.__version__}))
