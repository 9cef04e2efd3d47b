// SPDX-License-Identifier: Apache-2.0
// The workloads with oneTBB: independent tasks in a task_group, graphs as flow graphs (edges given by hand; built and run, or built before
// the clock starts and run again), and graphs as a task_group with counters written by hand, the fastest that a user of it can do.
#include <oneapi/tbb/flow_graph.h>
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_group.h>

#include <atomic>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "decoder.h"
#include "work.h"

namespace {

namespace flow = oneapi::tbb::flow;
using message = flow::continue_msg;
using node = flow::continue_node<message>;

// --- Graphs as lists of edges ---------------------------------------------------------------------------------------------------------

struct edges_t {
  int tasks = 0;
  std::vector<std::vector<int>> successors;
  std::vector<int> predecessors;  // how many
  explicit edges_t(int count) : tasks(count), successors(count), predecessors(count) {}
  void add(int from, int to) {
    successors[from].push_back(to);
    ++predecessors[to];
  }
};

edges_t chain_edges(int64_t count) {
  edges_t edges(static_cast<int>(count));
  for (int i = 1; i < count; ++i) edges.add(i - 1, i);
  return edges;
}
edges_t wavefront_edges(int64_t side) {
  edges_t edges(static_cast<int>(side * side));
  for (int i = 0; i < side; ++i) {
    for (int j = 0; j < side; ++j) {
      int self = static_cast<int>(i * side + j);
      if (i > 0) edges.add(static_cast<int>(self - side), self);
      if (j > 0) edges.add(self - 1, self);
    }
  }
  return edges;
}
edges_t node_edges() {
  edges_t edges(BENCH_NODES);
  for (int i = 0; i < BENCH_NODES; ++i) {
    for (int k = 0; k < bench_nodes[i].parent_count; ++k) edges.add(bench_nodes[i].parents[k], i);
  }
  return edges;
}
// What a user would have to work out by hand: per tile the last writer and the readers since.
edges_t decoder_edges() {
  struct tile_t {
    int writer = -1;
    std::vector<int> readers;
  };
  edges_t edges(DECODER_TASKS);
  std::unordered_map<float *, tile_t> tiles;
  std::vector<int> last(DECODER_TASKS, -1);  // the task to which an edge was added last: none twice
  auto add = [&](int from, int to) {
    if (from < 0 || from == to || last[from] == to) return;
    last[from] = to;
    edges.add(from, to);
  };
  for (int i = 0; i < DECODER_TASKS; ++i) {
    const decoder_task_t &task = decoder_tasks()[i];
    float *list[DECODER_MAX_TILES];
    for (int k = 0; k < task.read_count; ++k) {
      for (int n = decoder_box_tiles(&task.read[k], list); n-- > 0;) {
        add(tiles[list[n]].writer, i);
        tiles[list[n]].readers.push_back(i);
      }
    }
    for (int n = decoder_box_tiles(&task.write, list); n-- > 0;) {
      tile_t &tile = tiles[list[n]];
      add(tile.writer, i);
      for (int reader : tile.readers) add(reader, i);
      tile.readers.clear();
      tile.writer = i;
    }
  }
  return edges;
}

// --- Flow graph -----------------------------------------------------------------------------------------------------------------------

template <typename Body>
class flow_t {
 public:
  flow_t(const edges_t &edges, Body body) {
    for (int i = 0; i < edges.tasks; ++i) {
      nodes_.emplace_back(graph_, [body, i](const message &) {
        body(i);
        return message();
      });
      if (edges.predecessors[i] == 0) roots_.push_back(i);
    }
    for (int i = 0; i < edges.tasks; ++i) {
      for (int to : edges.successors[i]) flow::make_edge(nodes_[i], nodes_[to]);
    }
  }
  void run() {
    for (int root : roots_) nodes_[root].try_put(message());
    graph_.wait_for_all();
  }

 private:
  flow::graph graph_;
  std::deque<node> nodes_;
  std::vector<int> roots_;
};

// --- task_group and counters written by hand --------------------------------------------------------------------------------------------

template <typename Body>
class counters_t {
 public:
  counters_t(const edges_t &edges, Body body) : edges_(edges), body_(body), waiting_(new std::atomic<int>[edges.tasks]) {}
  void run() {
    for (int i = 0; i < edges_.tasks; ++i) waiting_[i].store(edges_.predecessors[i], std::memory_order_relaxed);
    for (int i = 0; i < edges_.tasks; ++i) {
      if (edges_.predecessors[i] == 0) group_.run([this, i] { from(i); });
    }
    group_.wait();
  }

 private:
  // A task, then its first successor that became ready, and so on; the others are handed out.
  void from(int task) {
    while (task >= 0) {
      body_(task);
      int next = -1;
      for (int to : edges_.successors[task]) {
        if (waiting_[to].fetch_sub(1, std::memory_order_acq_rel) != 1) continue;
        if (next < 0) {
          next = to;
        } else {
          group_.run([this, to] { from(to); });
        }
      }
      task = next;
    }
  }
  edges_t edges_;
  Body body_;
  std::unique_ptr<std::atomic<int>[]> waiting_;
  oneapi::tbb::task_group group_;
};

// --- Workloads ------------------------------------------------------------------------------------------------------------------------

uint64_t *words;
int64_t side_now;
void link(int) {
  bench_task_link(words);
}
void cell(int i) {
  bench_task_cell(words, side_now, i / side_now + 1, i % side_now + 1);
}
void random_node(int i) {
  bench_task_node(words, i);
}
using body_t = void (*)(int);

void independent(uint64_t *v, int64_t count) {
  oneapi::tbb::task_group group;
  for (int64_t i = 0; i < count; ++i) group.run([v, i] { bench_task_own(v, i); });
  group.wait();
}
void loop(uint64_t *v, int64_t count) {
  oneapi::tbb::parallel_for(int64_t{0}, count, [v](int64_t i) { bench_task_own(v, i); });
}
void phases(uint64_t *v, int64_t count) {
  oneapi::tbb::task_group group;
  for (int64_t p = 0; p < count; ++p) {
    for (int64_t i = 0; i < BENCH_LANES; ++i) group.run([v, i] { bench_task_own(v, i); });
    group.wait();
  }
}
// The edges are found while building, as a program that has the graph in its loops would do it; no list is kept.
void chain_built(uint64_t *v, int64_t count) {
  words = v;
  flow::graph graph;
  std::deque<node> nodes;
  for (int64_t i = 0; i < count; ++i) {
    nodes.emplace_back(graph, [](const message &) {
      bench_task_link(words);
      return message();
    });
    if (i > 0) flow::make_edge(nodes[i - 1], nodes[i]);
  }
  nodes[0].try_put(message());
  graph.wait_for_all();
}
void wavefront_built(uint64_t *v, int64_t side) {
  words = v;
  side_now = side;
  flow::graph graph;
  std::deque<node> nodes;
  for (int i = 0; i < side * side; ++i) {
    nodes.emplace_back(graph, [i](const message &) {
      cell(i);
      return message();
    });
    if (i >= side) flow::make_edge(nodes[i - side], nodes[i]);
    if (i % side > 0) flow::make_edge(nodes[i - 1], nodes[i]);
  }
  nodes[0].try_put(message());
  graph.wait_for_all();
}
void decoder_built(uint64_t *v, int64_t) {
  decoder_reset();
  flow_t<body_t>(decoder_edges(), decoder_run_task).run();
  v[0] = decoder_hash();
}
void decoder_plain(uint64_t *v, int64_t) {
  decoder_reset();
  for (int i = 0; i < DECODER_TASKS; ++i) decoder_run_task(i);
  v[0] = decoder_hash();
}

// The prepared graph of the rows that run again.
std::function<void()> prepared;
void run_prepared(uint64_t *v, int64_t size) {
  words = v;
  side_now = size;
  prepared();
}
void run_prepared_repeatedly(uint64_t *v, int64_t repeats) {
  words = v;
  for (int64_t r = 0; r < repeats; ++r) prepared();
}
void run_prepared_decoder(uint64_t *v, int64_t) {
  decoder_reset();
  prepared();
  v[0] = decoder_hash();
}

template <template <typename> class Graph>
void prepare(const edges_t &edges, body_t body) {
  auto graph = std::make_shared<Graph<body_t>>(edges, body);
  prepared = [graph] { graph->run(); };
}
// |kind| is "flow" or "counters".
void prepare(const std::string &kind, const edges_t &edges, body_t body) {
  if (kind == "flow") {
    prepare<flow_t>(edges, body);
  } else {
    prepare<counters_t>(edges, body);
  }
}

int measure(const std::string &name, int runs) {
  const bench_workload_t decoder = {"decoder", 0, DECODER_TASKS, 1, decoder_plain};
  const bench_workload_t *w = bench_workloads;
  if (name == "w1") return bench_rows("w1", &w[BENCH_W1], runs, independent);
  if (name == "w1loop") return bench_rows("w1loop", &w[BENCH_W1], runs, loop);
  if (name == "w2") return bench_rows("w2", &w[BENCH_W2], runs, chain_built);
  if (name == "w3") return bench_rows("w3", &w[BENCH_W3], runs, wavefront_built);
  if (name == "w4") return bench_rows("w4", &w[BENCH_W4], runs, phases);
  if (name == "decoder") return bench_rows("decoder", &decoder, runs, decoder_built);
  if (name == "smallest") return bench_report("smallest", bench_smallest(runs, wavefront_built), 1);
  const size_t split = name.find('_');
  if (split == std::string::npos) return 2;
  const std::string kind = name.substr(0, split), what = name.substr(split + 1);
  if (kind != "flow" && kind != "counters") return 2;
  if (what == "w2") {
    prepare(kind, chain_edges(BENCH_MANY), link);
    return bench_rows(name.c_str(), &w[BENCH_W2], runs, run_prepared);
  }
  if (what == "w3") {
    prepare(kind, wavefront_edges(BENCH_SIDE), cell);
    return bench_rows(name.c_str(), &w[BENCH_W3], runs, run_prepared);
  }
  if (what == "w5") {
    prepare(kind, node_edges(), random_node);
    return bench_rows(name.c_str(), &w[BENCH_W5], runs, run_prepared_repeatedly);
  }
  if (what == "decoder") {
    prepare(kind, decoder_edges(), decoder_run_task);
    return bench_rows(name.c_str(), &decoder, runs, run_prepared_decoder);
  }
  if (what == "smallest") {
    prepare(kind, wavefront_edges(BENCH_GRAIN_SIDE), cell);
    return bench_report(name.c_str(), bench_smallest(runs, run_prepared), 1);
  }
  return 2;
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  oneapi::tbb::global_control two(oneapi::tbb::global_control::max_allowed_parallelism, 2);
  (void)bench_make_nodes();
  decoder_initialize();
  return measure(argv[1], static_cast<int>(std::strtol(argv[2], nullptr, 10)));
}
