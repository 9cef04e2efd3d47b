# SPDX-License-Identifier: Apache-2.0
"""Times the encoder and ONNX Runtime in turns, on the same tokens, with two threads each.

    compare.py MINILM_PROGRAM ARTIFACT WORK_DIR

Both get what suits them best: ONNX Runtime the faster of its two graphs (as exported and optimised by the session, or fused by its transformer optimiser),
chosen per batch size before the timing. The two never run at the same time, and pause between turns until the other's spinning threads sleep.
"""
import csv
import datetime
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

import numpy
import onnxruntime

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "examples" / "minilm"))
from tokenize_text import model_dir  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

THREADS = 2
SEQUENCE = 128
PAUSE_S = 0.02
# batch -> rounds, launches per turn
PLAN = {1: (24, 8), 32: (9, 1)}
TOLERANCE = 2e-5


def full_length_tokens(rows):
    """The example's text as one stream of tokens, cut into rows of SEQUENCE with their start and end marks."""
    tokenizer = Tokenizer.from_file(str(model_dir() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    text = (ROOT / "examples" / "minilm" / "data" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    encoded = [e.ids for e in tokenizer.encode_batch(text)]
    start, end = encoded[0][0], encoded[0][-1]
    stream = [t for ids in encoded for t in ids[1:-1]]
    body = SEQUENCE - 2
    return numpy.array([[start] + stream[i * body : (i + 1) * body] + [end] for i in range(rows)], dtype="<i4")


class Ours:
    def __init__(self, program, artifact, files):
        weights = model_dir() / "model.safetensors"
        command = [program, artifact, str(weights), "serve", str(THREADS)] + [str(f) for f in files]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, index, launches):
        self.process.stdin.write(f"{index} {launches}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line.strip():
            sys.exit("compare.py: the encoder ended early; its message stands above")
        return line.split()

    def embed(self, index):
        return numpy.array(self.ask(index, 0), dtype=numpy.float32).reshape(-1, 384)

    def times_ms(self, index, launches):
        return [int(t) * 1e-6 for t in self.ask(index, launches)]

    def close(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            sys.exit("compare.py: the encoder failed at its end")


class Theirs:
    def __init__(self, model):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        options.inter_op_num_threads = 1
        self.session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        self.names = [i.name for i in self.session.get_inputs()]

    def embed(self, ids):
        feed = {"input_ids": ids.astype(numpy.int64), "attention_mask": numpy.ones(ids.shape, numpy.int64),
                "token_type_ids": numpy.zeros(ids.shape, numpy.int64)}
        return self.session.run(None, {k: feed[k] for k in self.names})[0]

    def times_ms(self, ids, launches):
        ids = ids.astype(numpy.int64)
        feed = {"input_ids": ids, "attention_mask": numpy.ones_like(ids), "token_type_ids": numpy.zeros_like(ids)}
        feed = {k: feed[k] for k in self.names}
        times = []
        for _ in range(launches):
            begin = time.perf_counter()
            self.session.run(None, feed)
            times.append((time.perf_counter() - begin) * 1e3)
        return times


def models(work):
    for name, flags in (("exported", []), ("fused", ["--fuse"])):
        path = work / f"{name}-{onnxruntime.__version__}.onnx"
        if not path.exists():
            part = path.with_suffix(".part.onnx")
            subprocess.run([sys.executable, str(ROOT / "bench" / "minilm" / "make_onnx.py"), str(model_dir()), str(part)] + flags, check=True,
                           stdout=subprocess.DEVNULL)
            part.rename(path)
        yield name, Theirs(path)


def cpu_name():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def compare(ours, index, ids, candidates):
    batch = len(ids)
    rounds, launches = PLAN[batch]
    found = ours.embed(index)
    for name, theirs in candidates.items():
        difference = float(numpy.abs(theirs.embed(ids) - found).max())
        if not difference <= TOLERANCE:
            sys.exit(f"compare.py: batch {batch}: the embeddings differ from ONNX Runtime's ({name}) by {difference}")
    best = {name: min(theirs.times_ms(ids, 5 if batch == 1 else 2)) for name, theirs in candidates.items()}
    graph = min(best, key=best.get)
    mine, other = [], []
    for turn in range(rounds):
        # Who begins alternates, so that a drift of the machine favours nobody.
        for who in (0, 1) if turn % 2 == 0 else (1, 0):
            time.sleep(PAUSE_S)
            if who == 0:
                mine += ours.times_ms(index, launches)
            else:
                other += candidates[graph].times_ms(ids, launches)
    a, b = statistics.median(mine), statistics.median(other)
    print(f"batch {batch:2d} x {SEQUENCE} tokens, {THREADS} threads, medians of {len(mine)}: {a:8.2f} ms ({batch / a * 1e3:5.1f} sentences/s), "
          f"ONNX Runtime ({graph}) {b:8.2f} ms ({batch / b * 1e3:5.1f} sentences/s), ratio {b / a:.3f}; best: {min(mine):.2f} and {min(other):.2f} ms, "
          f"ratio {min(other) / min(mine):.3f}")
    return {"batch": batch, "sequence": SEQUENCE, "threads": THREADS, "slipstream_ms": round(a, 3), "onnxruntime_ms": round(b, 3),
            "onnxruntime_graph": graph, "ratio": round(b / a, 4), "slipstream_best_ms": round(min(mine), 3), "onnxruntime_best_ms": round(min(other), 3)}


def main():
    program, artifact, work = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    work.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]  # of others, before we add to it; on a busy machine the ratio flatters whoever needs fewer rendezvous
    batches = {batch: full_length_tokens(batch) for batch in PLAN}
    files = [work / f"tokens_b{batch}.npy" for batch in batches]
    for path, ids in zip(files, batches.values()):
        numpy.save(path, ids)
    candidates = dict(models(work))
    ours = Ours(program, artifact, files)
    rows = [compare(ours, index, ids, candidates) for index, ids in enumerate(batches.values())]
    ours.close()

    results = ROOT / "bench" / "results" / "minilm.csv"
    results.parent.mkdir(exist_ok=True)
    head = {"date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"), "cpu": cpu_name(),
            "load_1min": round(load, 2), "onnxruntime": onnxruntime.__version__}
    new = not results.exists()
    with results.open("a", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, fieldnames=list(head) + list(rows[0]))
        if new:
            writer.writeheader()
        writer.writerows({**head, **row} for row in rows)
    print("RESULT " + " ".join(f"ratio_onnxruntime_b{row['batch']}={row['ratio']:.3f}" for row in rows))


if __name__ == "__main__":
    main()
