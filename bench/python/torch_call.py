# SPDX-License-Identifier: Apache-2.0
"""Operators of PyTorch: ours beside the same in C++, tvm-ffi and the encoder beside transformers', in turns, in one process. See README.md.

    torch_call.py WORK_DIR [calls|minilm]      WORK_DIR keeps what is compiled
"""
import gc
import os
import pathlib
import statistics
import subprocess
import sys
import time
from itertools import repeat

ROOT = pathlib.Path(__file__).resolve().parents[2]
os.environ["HF_HUB_OFFLINE"] = "1"
sys.path[:0] = [str(ROOT / "tests" / "python"), str(ROOT / "examples" / "minilm"), str(ROOT / "bench" / "minilm")]

import programs  # noqa: E402
import slipstream as slip  # noqa: E402
import slipstream.torch as slip_torch  # noqa: E402
import torch  # noqa: E402
from call import tvm_function  # noqa: E402

BATCHES, CALLS, COUNT, THREADS = 61, 2000, 4, 2


def peer(work):
    """The C++ operator, compiled once for each PyTorch."""
    folder = pathlib.Path(torch.__file__).parent
    library = work / f"peer_torch-{torch.__version__}.so"
    if not library.exists():
        part = library.with_suffix(".part")
        subprocess.run(["g++", "-std=c++20", "-O2", "-fPIC", "-shared", f"-I{folder}/include", str(ROOT / "bench" / "python" / "peer_torch.cc"), "-o", str(part), f"-L{folder}/lib",
                        "-ltorch", "-ltorch_cpu", "-lc10"], check=True)
        part.rename(library)
    torch.ops.load_library(str(library))
    return torch.ops.slip_bench_peer.nothing.default


def loop(f, x, y, z):
    """Nanoseconds a call."""
    start = time.perf_counter_ns()
    for _ in repeat(None, CALLS):
        f(x, y, z)
    return (time.perf_counter_ns() - start) / CALLS


def alternate(meters, rounds, pause=0.0):
    """Each meter's values, measured in turns; who begins alternates, so that a drift of the machine favours nobody."""
    values = {name: [] for name in meters}
    for turn in range(rounds):
        for name in list(meters) if turn % 2 == 0 else reversed(list(meters)):
            time.sleep(pause)
            values[name].append(meters[name]())
    return values


def calls(work):
    slip_torch.init(single_thread=True)
    artifact = programs.make(str(work), "three", "(in x: f32[N], y: f32[N], out z: f32[N]) -> (z)", "(void)o; (void)args;")
    operator = slip_torch.register(artifact, "slip_bench::three")
    tensors = [torch.zeros(COUNT) for _ in range(3)]
    subjects = {"op": operator.op, "peer": peer(work), "wrapper": operator}
    nothing = tvm_function(str(work))
    if nothing is not None:
        subjects["tvmffi"] = nothing
    meters = {name: lambda f=f: loop(f, *tensors) for name, f in subjects.items()}
    gc.disable()
    for meter in meters.values():
        meter()
    times = alternate(meters, BATCHES)
    gc.enable()
    median = {name: statistics.median(values) for name, values in times.items()}
    ratio = statistics.median(a / b for a, b in zip(times["op"], times["peer"]))
    print("torch.ops, 3 tensors: %.0f ns with everything checked; C++ by the stable ABI, nothing checked, %.0f (ratio %.2f); by the Operator %.0f; tvm-ffi, nothing checked %s" % (
        median["op"], median["peer"], ratio, median["wrapper"], "%.0f" % median["tvmffi"] if nothing else "not installed"))
    result = {"torch_op_ratio": ratio, "torch_op_ns": median["op"], "torch_peer_ns": median["peer"], "torch_wrapper_ns": median["wrapper"]}
    if nothing:
        result["tvmffi_ratio"] = statistics.median(a / b for a, b in zip(times["op"], times["tvmffi"]))
    slip_torch.close()
    return result


def minilm(work):
    """Batches of the example's own sentences, as they are: padded to the longest of the batch, which both sides are told."""
    import transformers
    from tokenize_text import model_dir
    from torch_encoder import Encoder, as_batch, load_weights

    torch.set_num_threads(THREADS)
    slip_torch.init(scheduler_threads=THREADS)
    artifact = work / "minilm.slipc"
    slip.compile(str(ROOT / "examples" / "minilm" / "minilm.json"), str(artifact), replace=True)
    encoder = Encoder(slip_torch.load(artifact), load_weights(model_dir() / "model.safetensors"))
    transformers.utils.logging.disable_progress_bar()
    model = transformers.AutoModel.from_pretrained(str(model_dir()), dtype=torch.float32).eval()

    class Reference(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, mask):
            hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            weights = mask[..., None].float()
            return torch.nn.functional.normalize((hidden * weights).sum(1) / weights.sum(1), dim=-1)

    text = (ROOT / "examples" / "minilm" / "data" / "sentences.txt").read_text(encoding="utf-8").splitlines()
    batches = [as_batch(text[i:i + 16]) for i in range(0, 64, 16)]
    wide = [(ids.long(), mask.long()) for ids, mask in batches]
    reference = Reference()
    compiled = torch.compile(reference, dynamic=True)
    ours = torch.compile(encoder, fullgraph=True, dynamic=True)

    def meter(f, given):
        def run():
            start = time.perf_counter()
            for ids, mask in given:
                f(ids, mask)
            return time.perf_counter() - start
        return run

    with torch.inference_mode():
        for (ids, mask), (long_ids, long_mask) in zip(batches, wide):
            expected = reference(long_ids, long_mask)
            for name, found in (("the operator", encoder(ids, mask)), ("the compiled module", ours(ids, mask)), ("torch.compile", compiled(long_ids, long_mask))):
                difference = float((found - expected).abs().max())
                if not difference <= 2e-5:
                    sys.exit(f"bench/python: the embeddings of {name} differ from transformers' by {difference}")
        meters = {"ours": meter(encoder, batches), "ours compiled": meter(ours, batches), "eager": meter(reference, wide), "compile": meter(compiled, wide)}
        for run in meters.values():
            run()
        times = alternate(meters, 7, 0.02)
    count = sum(len(ids) for ids, _ in batches)
    median = {name: statistics.median(values) for name, values in times.items()}
    eager = statistics.median(b / a for a, b in zip(times["ours"], times["eager"]))
    inductor = statistics.median(b / a for a, b in zip(times["ours compiled"], times["compile"]))
    print("minilm, %d sentences in batches of 16, %d threads: %.1f sentences/s, in a compiled module %.1f; transformers eager %.1f (ratio %.2f), torch.compile %.1f (ratio %.2f)" % (
        count, THREADS, count / median["ours"], count / median["ours compiled"], count / median["eager"], eager, count / median["compile"], inductor))
    slip_torch.close()
    return {"minilm_ratio_eager": eager, "minilm_ratio_compile": inductor, "minilm_sentences_per_s": count / median["ours"]}


def main():
    work = pathlib.Path(sys.argv[1])
    work.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(work / "torchinductor"))
    parts = sys.argv[2:] or ["calls", "minilm"]
    if len(parts) > 1:  # a process each: they want other options of the one context that a device has
        for part in parts:
            subprocess.run([sys.executable, __file__, str(work), part], check=True)
        return
    result = calls(work) if parts[0] == "calls" else minilm(work)
    print("RESULT " + " ".join("%s=%.3f" % item if "ratio" in item[0] else "%s=%.0f" % item for item in result.items()), flush=True)


if __name__ == "__main__":
    main()
