# SPDX-License-Identifier: Apache-2.0
"""The encoder as an operator of PyTorch, inside a module that torch.compile takes whole.

    torch_encoder.py ARTIFACT [QUERY]      prints the neighbours of QUERY in data/sentences.txt

`Encoder` holds torch.ops.slip.minilm with its weights; `Search` is PyTorch around it.
"""
import pathlib
import sys

import torch

import slipstream.torch
from tokenize_text import LONGEST, model_dir, tokenize

HERE = pathlib.Path(__file__).resolve().parent


def load_weights(path):
    """The tensors of a .safetensors file (the format is a length, a JSON header and the bytes)."""
    import json

    data = pathlib.Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    head, body = json.loads(data[8:8 + size]), bytearray(data[8 + size:])
    types = {"F32": torch.float32, "F16": torch.float16, "I64": torch.int64}
    made = {}
    for name, entry in head.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            made[name] = torch.frombuffer(body[begin:end], dtype=types[entry["dtype"]]).reshape(entry["shape"])
    return made


class Encoder(torch.nn.Module):
    """Sentences' embeddings of unit length: encoder(ids, mask), both i32 of shape [batch, length]."""

    def __init__(self, operator, weights):
        super().__init__()
        self.operator = operator
        # Parameters between mask and embedding are the weights, by the names of the model's file with _ for each dot.
        self.names = [p.name for p in operator.signature.params][2:-1]
        by_name = {name.replace(".", "_"): tensor for name, tensor in weights.items()}
        for name in self.names:
            self.register_buffer(name, by_name[name].float().contiguous())

    def forward(self, ids, mask):
        embedding = torch.empty(ids.shape[0], 384, device=ids.device)
        return self.operator(ids, mask, *(getattr(self, name) for name in self.names), embedding)


class Search(torch.nn.Module):
    """How near sentences are to known ones: search(ids, mask, known) -> [batch, known]."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, ids, mask, known):
        return self.encoder(ids, mask) @ known.t()


def as_batch(sentences):
    """ids and mask of sentences, as the encoder takes them."""
    tokens = torch.from_numpy(tokenize(sentences))
    mask = (tokens >= 0).to(torch.int32)
    return tokens.clamp(min=0), mask


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    query = sys.argv[2] if len(sys.argv) == 3 else "How do creatures find their way over long distances?"
    slipstream.torch.init()
    encoder = Encoder(slipstream.torch.load(sys.argv[1]), load_weights(model_dir() / "model.safetensors"))
    search = torch.compile(Search(encoder), fullgraph=True, dynamic=True)
    sentences = (HERE / "data" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    with torch.inference_mode():
        known = torch.cat([encoder(*as_batch(sentences[i:i + 32])) for i in range(0, len(sentences), 32)])
        score = search(*as_batch([query]), known)[0]
    print(f"{query}  (at most {LONGEST} tokens a sentence)")
    for value, index in zip(*torch.topk(score, 3)):
        print(f"  {value:.3f}  {sentences[int(index)]}")


if __name__ == "__main__":
    main()
