#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The engine beside its peers, in turns:  compare.py DIR_WITH_THE_PROGRAMS [--quick] [--rows-only]   (called by `run`)
compare.py --report ROWS.csv ...   the tables and the RESULT line from rows of earlier runs

For each pass and workload, ours and every peer run once, each a process of its own, on the same two CPUs. The hand-over of a cache line between the two
is metered before and after each: on a virtual machine it changes between one core, one last-level cache (L3) and two within seconds, and figures of
different regimes say nothing about each other. A row counts where both readings are of one regime; ratios are made within a pass and a regime, and
the median over the passes is reported. RESULT: times of ours in the regime seen most, ratios of all passes.
"""
import csv
import datetime
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RUNS = 3  # measured in each process, after one for warmth; the median counts
TIME_LIMIT_S = 140  # no further pass is begun after this, unless PASSES is set
REGIMES = ["one core", "one L3", "two L3s"]

# workload of ours -> (peer as shown, program, its name of the workload, what it is asked for)
BUILT, AGAIN, COUNTERS = "TBB flow graph, build + run", "TBB flow graph, run again", "TBB + counters by hand"
GROUPS = [
    (["w1d"], [("libgomp", "libgomp", "w1d"), ("libomp", "libomp", "w1d"), ("libgomp, no dependences", "libgomp", "w1"),
               ("TBB task_group, no dependences", "tbb", "w1"), ("call loop", "bound", "loop_w1")]),
    (["w1spmd"], [("libgomp taskloop", "libgomp", "w1loop"), ("libomp taskloop", "libomp", "w1loop"), ("TBB parallel_for", "tbb", "w1loop"),
                  ("fixed plan", "bound", "fixed_w1")]),
    (["w2"], [("libgomp", "libgomp", "w2"), ("libomp", "libomp", "w2"), (BUILT, "tbb", "w2"), (AGAIN, "tbb", "flow_w2"), (COUNTERS, "tbb", "counters_w2"),
              ("call loop", "bound", "loop_w2"), ("fixed plan", "bound", "fixed_w2")]),
    (["w3"], [("libgomp", "libgomp", "w3"), ("libomp", "libomp", "w3"), (BUILT, "tbb", "w3"), ("call loop", "bound", "loop_w3")]),
    (["w4"], [("libgomp", "libgomp", "w4"), ("libomp", "libomp", "w4"), ("TBB task_group", "tbb", "w4"), ("call loop", "bound", "loop_w4"),
              ("fixed plan", "bound", "fixed_w4")]),
    (["w5"], [("libgomp", "libgomp", "w5"), ("libomp", "libomp", "w5"), ("call loop", "bound", "loop_w5")]),
    (["w5replay", "w5planned"], [(COUNTERS, "tbb", "counters_w5"), (AGAIN, "tbb", "flow_w5"), ("fixed plan", "bound", "fixed_w5")]),
    (["w3replay", "w3planned"], [(COUNTERS, "tbb", "counters_w3"), (AGAIN, "tbb", "flow_w3"), ("fixed plan", "bound", "fixed_w3")]),
    (["decoder"], [("libgomp", "libgomp", "decoder"), ("libomp", "libomp", "decoder"), (BUILT, "tbb", "decoder"), (COUNTERS, "tbb", "counters_decoder"),
                   ("call loop", "bound", "loop_decoder")]),
    (["halos"], [("libgomp", "libgomp", "halos")]),
    (["submit"], []),
    (["single"], []),
    (["replay1"], []),
]
# Once in a run: the smallest useful task and the opening of a context.
ONCE = [("ours", "bench_graph", "smallest"), ("libgomp", "libgomp", "smallest"), (BUILT, "tbb", "smallest"), (AGAIN, "tbb", "flow_smallest"),
        (COUNTERS, "tbb", "counters_smallest"), ("ours", "bench_graph", "open_close")]
TITLES = {
    "w1d": "100,000 independent tasks", "w1spmd": "100,000 blocks of one task", "w2": "chain of 100,000", "w3": "wavefront of 300 x 300",
    "w4": "1000 phases of 64", "w5": "random graph of 1000, 200 times, run while submitted", "w5replay": "the same, recorded and replayed",
    "w5planned": "the same, replayed by a plan per thread", "w3replay": "the wavefront, recorded and replayed",
    "w3planned": "the same, replayed by a plan per thread", "decoder": "two decoder layers in 864 tasks", "halos": "overlapping strided halos",
    "submit": "one submit with 3 tensors", "single": "a whole run of one task",
    "replay1": "one replay of one task",
}
# RESULT: key -> (ours, peer)
RATIOS = [
    ("w1d_ratio_libgomp", "w1d", "libgomp"), ("w1spmd_ratio_taskloop", "w1spmd", "libgomp taskloop"), ("w2_ratio_libgomp", "w2", "libgomp"),
    ("w2_ratio_tbb", "w2", BUILT), ("w3_ratio_libgomp", "w3", "libgomp"), ("w3_ratio_tbb", "w3", BUILT), ("w4_ratio_libgomp", "w4", "libgomp"),
    ("w4_ratio_tbb", "w4", "TBB task_group"), ("w5_ratio_libgomp", "w5", "libgomp"), ("w5replay_ratio_tbbcounters", "w5replay", COUNTERS),
    ("w5planned_ratio_tbbcounters", "w5planned", COUNTERS), ("w3replay_ratio_tbbcounters", "w3replay", COUNTERS),
    ("w3planned_ratio_tbbcounters", "w3planned", COUNTERS), ("decoder_ratio_libgomp", "decoder", "libgomp"), ("decoder_ratio_tbb", "decoder", BUILT),
    ("halos_ratio_libgomp", "halos", "libgomp"),
]
FIELDS = ["pass", "peer", "workload", "row", "ns", "handover_before", "handover_after"]


# --- Measuring --------------------------------------------------------------------------------------------------------------------------

class Programs:
    """The programs in one directory, run on two CPUs of this process's own."""

    def __init__(self, folder):
        self.folder = folder
        self.cpus = sorted(os.sched_getaffinity(0))[:2]
        self.environment = dict(os.environ, OMP_NUM_THREADS="2", OMP_PROC_BIND="true")
        self.missing = set()

    def has(self, program):
        return os.access(os.path.join(self.folder, program), os.X_OK)

    def run(self, program, *arguments, limit=60):
        environment = dict(self.environment, OMP_WAIT_POLICY="active") if program == "libomp" else self.environment
        done = subprocess.run([os.path.join(self.folder, program), *arguments], env=environment, capture_output=True, text=True, timeout=limit, check=False,
                              preexec_fn=lambda: os.sched_setaffinity(0, self.cpus))
        if done.returncode == 2:  # does not know this workload
            return ""
        if done.returncode != 0:
            sys.exit("bench/graph: %s %s ended with %d\n%s%s" % (program, " ".join(arguments), done.returncode, done.stdout[-500:], done.stderr[-500:]))
        return done.stdout

    def handover(self):
        return float(self.run("meter"))

    def measure(self, program, workload, runs):
        """Median ns of a row, None if the program has no such workload; a wrong result ends everything."""
        arguments = ("--rows", workload, str(runs)) if program == "bench_graph" else (workload, str(runs))
        rows = [line.split(",") for line in self.run(program, *arguments).splitlines() if line.startswith("row,")]
        if any(row[3] != "ok" for row in rows):
            sys.exit("bench/graph: %s %s computed a wrong result" % (program, workload))
        if not rows:
            if program + workload not in self.missing:
                print("bench/graph: %s has no workload %s" % (program, workload), file=sys.stderr)
            self.missing.add(program + workload)
            return None
        return statistics.median(float(row[2]) for row in rows)


def one_pass(programs, number, rows):
    before = programs.handover()
    for ours, peers in GROUPS:
        entries = [("ours", "bench_graph", name, name) for name in ours] + [(peer, program, name, ours[0]) for peer, program, name in peers]
        shift = number % len(entries)  # nobody is always the first
        for peer, program, name, workload in entries[shift:] + entries[:shift]:
            if not programs.has(program):
                continue
            ns = programs.measure(program, name, RUNS)
            if ns is None:
                continue
            after = programs.handover()
            rows.append({"pass": number, "peer": peer, "workload": workload, "row": name, "ns": ns, "handover_before": before, "handover_after": after})
            before = after


def measure(folder, quick, rows_only):
    programs = Programs(folder)
    if len(programs.cpus) < 2:
        sys.exit("bench/graph: this process may use one CPU only; the benchmark needs two")
    passes = 1 if quick else int(os.environ.get("PASSES", "0"))
    rows, start = [], time.monotonic()
    number = 0
    while number < passes if passes else time.monotonic() - start < TIME_LIMIT_S:
        one_pass(programs, number, rows)
        number += 1
    print("%d passes in %.0f s, CPUs %s" % (number, time.monotonic() - start, programs.cpus), file=sys.stderr)
    if rows_only:
        return rows, []
    before = programs.handover()
    for peer, program, name in ONCE:
        if not programs.has(program):
            continue
        ns = programs.measure(program, name, 3 if quick else 5)
        after = programs.handover()
        rows.append({"pass": number, "peer": peer, "workload": name.split("_")[-1] if peer != "ours" else name, "row": name, "ns": ns,
                     "handover_before": before, "handover_after": after})
        before = after
    curves = programs.run("bench_graph", "--curves", "100000" if quick else "10000000", limit=300)
    return rows, [line.split(",")[1:] for line in curves.splitlines() if line.startswith("curve,")]


# --- Reporting --------------------------------------------------------------------------------------------------------------------------

def regime_of(handover):
    return REGIMES[0] if handover < 22 else REGIMES[1] if handover < 100 else REGIMES[2]


def regime(row):
    """Of a row, None where it changed meanwhile."""
    before, after = regime_of(float(row["handover_before"])), regime_of(float(row["handover_after"]))
    return before if before == after else None


class Figures:
    def __init__(self, rows):
        self.rows = rows
        counts = {r: sum(1 for row in rows if regime(row) == r) for r in REGIMES}
        self.regimes = [r for r in REGIMES if counts[r]]
        self.main = max(REGIMES, key=lambda r: counts[r])

    def values(self, workload, peer, where=None):
        return [float(row["ns"]) for row in self.rows
                if row["workload"] == workload and row["peer"] == peer and (where is None or regime(row) == where)]

    def ns(self, workload, peer, where):
        values = self.values(workload, peer, where)
        return statistics.median(values) if values else None

    def ratio(self, workload, peer, where=None):
        """How many times as long the peer takes: median over the passes in which both rows are of one regime (of |where|), and their number."""
        table = {}
        for row in self.rows:
            if row["workload"] in (workload, self.of_peers(workload)) and row["peer"] in ("ours", peer):
                if row["peer"] == "ours" and row["row"] != workload:
                    continue
                table.setdefault(row["pass"], {})[row["peer"]] = row
        ratios = []
        for pair in table.values():
            if len(pair) == 2 and regime(pair["ours"]) and regime(pair["ours"]) == regime(pair[peer]) and where in (None, regime(pair[peer])):
                ratios.append(float(pair[peer]["ns"]) / float(pair["ours"]["ns"]))
        return (statistics.median(ratios), len(ratios)) if ratios else (None, 0)

    @staticmethod
    def of_peers(workload):
        """The workload under whose name the peers' rows of the same group are kept."""
        return next((ours[0] for ours, _ in GROUPS if workload in ours), workload)

    def handover(self, where):
        values = [float(row["handover_before"]) for row in self.rows if regime(row) == where]
        return statistics.median(values) if values else None


def show(value, digits=1):
    return "-" if value is None else "%.*f" % (digits, value)


def print_tables(figures):
    print("ns a task, about 47 ns of work included (decoder: 2-20 us); 2 threads; medians. Ratio: the peer's time divided by ours, in one pass and regime.\n")
    heads = " | ".join("%s (%s ns) | ratio" % (r, show(figures.handover(r), 0)) for r in figures.regimes)
    print("| workload | | %s |" % heads)
    print("|---|---|" + "---:|---:|" * len(figures.regimes))
    for ours, peers in GROUPS:
        for name in ours:
            cells = " | ".join("**%s** |" % show(figures.ns(name, "ours", r)) for r in figures.regimes)
            print("| %s: %s | **ours** | %s |" % (name, TITLES[name], cells))
        for peer, _, _ in peers:
            cells = []
            for r in figures.regimes:
                ratios = " / ".join(show(figures.ratio(name, peer, r)[0], 2) for name in ours)
                cells.append("%s | %s" % (show(figures.ns(ours[0], peer, r)), ratios))
            if figures.values(ours[0], peer):
                print("| | %s | %s |" % (peer, " | ".join(cells)))
    smallest = [(row["peer"], float(row["ns"]), float(row["handover_before"])) for row in figures.rows if row["workload"] == "smallest"]
    if smallest:
        print("\nSmallest useful task (wavefront, two threads as fast as the plain loop on one), ns of work:")
        print("; ".join("%s %.0f (hand-over %.0f)" % entry for entry in smallest))


def print_curves(curves):
    if not curves:
        return
    print("\n| tasks | " + " | ".join("%s ns a task | MB committed" % name for name in ("w1d", "w2", "w3")) + " |")
    print("|---:|" + "---:|---:|" * 3)
    by_name = {name: [line for line in curves if line[0] == name] for name in ("w1d", "w2", "w3")}
    for i, line in enumerate(by_name["w1d"]):
        print("| %s | %s |" % (line[1], " | ".join("%s | %s" % (by_name[name][i][2], by_name[name][i][3]) for name in ("w1d", "w2", "w3"))))


def print_result(figures, curves):
    parts = ["handover_ns=" + show(figures.handover(figures.main))]
    for ours, _ in GROUPS:
        for name in ours:
            ns = figures.ns(name, "ours", figures.main)
            parts.append("%s_ns=%s" % (name, show(figures.ns(name, "ours", None) if ns is None else ns)))
            for key, workload, peer in RATIOS:
                if workload == name:
                    parts.append("%s=%s" % (key, show(figures.ratio(workload, peer)[0], 2)))
    for name, unit, scale in (("smallest", "ns", 1), ("open_close", "us", 1e-3)):
        values = figures.values(name, "ours")
        parts.append("%s_%s=%s" % (name, unit, show(statistics.median(values) * scale if values else None, 0)))
    for name in ("w1d", "w2", "w3"):
        line = [c for c in curves if c[0] == name]
        if len(line) > 3:  # the cost of a task in the largest graph, in terms of the one of 100,000
            parts.append("%s_growth=%.2f" % (name, float(line[-1][2]) / float(line[3][2])))
    if curves:
        parts.append("committed_mb=%s" % curves[-1][3])
    print("\nRESULT " + " ".join(parts))


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "unknown")


def keep(figures, path):
    """One line for each workload, peer and regime."""
    new = not os.path.exists(path)
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    with open(path, "a", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if new:
            writer.writerow(["date", "cpu", "peer", "workload", "regime", "ns", "handover_ns", "rows"])
        groups = {}
        for row in figures.rows:
            groups.setdefault((row["peer"], row["row"] if row["peer"] == "ours" else row["workload"], regime(row)), []).append(row)
        for (peer, workload, where), rows in groups.items():
            if where:
                writer.writerow([date, cpu_name(), peer, workload, where, "%.1f" % statistics.median(float(row["ns"]) for row in rows),
                                 "%.1f" % statistics.median(float(row["handover_before"]) for row in rows), len(rows)])


def main(arguments):
    if arguments and arguments[0] == "--report":
        rows = []
        for number, path in enumerate(arguments[1:]):
            with open(path, encoding="utf-8", newline="") as file:
                rows += [dict(row, **{"pass": "%d.%s" % (number, row["pass"])}) for row in csv.DictReader(file)]
        figures = Figures(rows)
        print_tables(figures)
        print_result(figures, [])
        return
    folder = arguments[0]
    rows, curves = measure(folder, "--quick" in arguments[1:], "--rows-only" in arguments[1:])
    with open(os.path.join(folder, "rows.csv"), "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    figures = Figures(rows)
    keep(figures, os.path.join(ROOT, "bench", "results", "graph.csv"))
    print_tables(figures)
    print_curves(curves)
    print_result(figures, curves)


if __name__ == "__main__":
    main(sys.argv[1:])
