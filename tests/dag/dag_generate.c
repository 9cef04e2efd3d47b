// SPDX-License-Identifier: Apache-2.0
// Draws a program from a seed.
#include <string.h>

#include "dag_program.h"
#include "slip_test.h"

typedef struct dag_draw_t {
  dag_program_t *program;
  uint64_t random;
  uint32_t depth, modes[DAG_DEPTH + 1];
  uint32_t heap_used[4];  // of a ring's open scopes
  uint32_t visible_count, visible_at[DAG_DEPTH + 1];
  uint8_t visible[DAG_BUFFERS];
  uint32_t handle_count;
  uint16_t handles[DAG_OPS];  // ids of tasks and joins
  dag_view_t seen[16];        // views to be repeated exactly
  uint32_t seen_count;
  int32_t tile[3];
  bool with_whole;         // in simple programs: whole buffers among the tiles
  bool nested;             // scopes come and go, and their memory with them
  bool graphs;             // scopes are often those of named graphs
  uint32_t graph_depth;    // of the outermost open graph; 0: none
  uint32_t graph_handles;  // handles from before it
} dag_draw_t;

static int32_t below(dag_draw_t *draw, int32_t n) {
  return (int32_t)(slip_test_random(&draw->random) % (uint64_t)n);
}
static bool one_in(dag_draw_t *draw, int32_t n) {
  return below(draw, n) == 0;
}
static int32_t least(int32_t a, int32_t b) {
  return a < b ? a : b;
}

static uint8_t random_dtype(dag_draw_t *draw) {
  static const uint8_t dtypes[] = {SLIP_DTYPE_I64, SLIP_DTYPE_I64, SLIP_DTYPE_U64, SLIP_DTYPE_F64, SLIP_DTYPE_I32, SLIP_DTYPE_F32,
                                   SLIP_DTYPE_U32, SLIP_DTYPE_I16, SLIP_DTYPE_U16, SLIP_DTYPE_I8,  SLIP_DTYPE_U8};
  return dtypes[below(draw, sizeof(dtypes))];
}

// --- Buffers ------------------------------------------------------------------------------------------------------------------------

static uint8_t add_buffer(dag_draw_t *draw, uint8_t dtype, uint8_t rank, const int32_t *dims) {
  dag_program_t *program = draw->program;
  uint8_t index = (uint8_t)program->buffer_count++;
  dag_buffer_t *buffer = &program->buffers[index];
  buffer->dtype = dtype;
  buffer->rank = rank;
  buffer->bytes = dag_dtype_bytes(dtype);
  for (int i = 0; i < rank; ++i) buffer->bytes *= buffer->dims[i] = dims[i];
  buffer->base = program->bytes;
  program->bytes += (buffer->bytes + 63) / 64 * 64;
  draw->visible[draw->visible_count++] = index;
  return index;
}

static void add_storages(dag_draw_t *draw) {
  uint32_t count = 1 + (uint32_t)below(draw, DAG_STORAGES);
  for (uint32_t i = 0; i < count; ++i) {
    uint8_t rank = (uint8_t)(1 + below(draw, 3)), dtype = random_dtype(draw);
    int32_t dims[3] = {1, 1, 1}, room = 1536 / dag_dtype_bytes(dtype);
    if (room > 400) room = 400;
    for (int axis = 0; axis < rank; ++axis) {
      dims[axis] = rank == 1 ? 8 + below(draw, room - 8) : rank == 2 ? 3 + below(draw, 10) : 2 + below(draw, 4);
    }
    add_buffer(draw, dtype, rank, dims);
  }
  draw->program->storage_count = count;
}

// An intermediate may be made where the heap ring has room beside what the open scopes hold, whatever falls off at its end.
static bool draw_intermediate(dag_draw_t *draw, uint8_t *out) {
  dag_program_t *program = draw->program;
  uint32_t ring = draw->depth < 3 ? draw->depth : 3;
  uint8_t dtype = random_dtype(draw), rank = (uint8_t)(1 + below(draw, 2));
  int32_t dims[3] = {1 + below(draw, 4), 1 + below(draw, 8), 1}, size = dag_dtype_bytes(dtype);
  if (one_in(draw, 40)) dims[0] = 0;
  if (draw->nested || one_in(draw, 3)) dims[0] = (int32_t)program->heap / (rank == 1 ? 4 : 4 * dims[1]) / size;  // as much as may be
  if (dims[0] * size * (rank == 1 ? 1 : dims[1]) > 256) dims[0] = 1;
  uint32_t bytes = (uint32_t)(dims[0] * size * (rank == 1 ? 1 : dims[1]));
  bytes = bytes == 0 ? 64 : (bytes + 63) / 64 * 64;
  if (program->buffer_count == DAG_BUFFERS || program->bytes + 256 > DAG_BYTES || bytes > program->heap / 4) return false;
  if (draw->heap_used[ring] + bytes > program->heap / 2) return false;
  draw->heap_used[ring] += bytes;
  *out = add_buffer(draw, dtype, rank, dims);
  return true;
}

// --- Views --------------------------------------------------------------------------------------------------------------------------

static dag_view_t whole(const dag_program_t *program, uint8_t index) {
  const dag_buffer_t *buffer = &program->buffers[index];
  dag_view_t view = {.buffer = index, .dtype = buffer->dtype, .rank = buffer->rank};
  int32_t stride = 1;
  for (int i = buffer->rank; i-- > 0;) {
    view.dims[i] = buffer->dims[i];
    view.strides[i] = stride;
    stride *= buffer->dims[i];
  }
  return view;
}

static void cut(dag_view_t *view, int axis, int32_t start, int32_t length) {
  view->offset += start * view->strides[axis] * dag_dtype_bytes(view->dtype);
  view->dims[axis] = length;
}

// One tile of a fixed size on every axis, with a halo or without.
static dag_view_t tile(dag_draw_t *draw, uint8_t buffer, int32_t halo) {
  dag_view_t view = whole(draw->program, buffer);
  for (int axis = 0; axis < view.rank; ++axis) {
    int32_t size = least(draw->tile[axis] * (view.rank == 1 ? 4 : 1), view.dims[axis]);
    if (size == 0) continue;
    int32_t start = below(draw, view.dims[axis] / size) * size, end = least(start + size + halo, view.dims[axis]);
    start = start < halo ? 0 : start - halo;
    cut(&view, axis, start, end - start);
  }
  return view;
}

// A box of the tile's size anywhere: equal shapes that lie on no common grid.
static dag_view_t shifted(dag_draw_t *draw, uint8_t buffer) {
  dag_view_t view = whole(draw->program, buffer);
  for (int axis = 0; axis < view.rank; ++axis) {
    int32_t size = least(draw->tile[axis], view.dims[axis]);
    cut(&view, axis, below(draw, view.dims[axis] - size + 1), size);
  }
  return view;
}

static dag_view_t slices(dag_draw_t *draw, uint8_t buffer) {
  dag_view_t view = whole(draw->program, buffer);
  for (int axis = 0; axis < view.rank; ++axis) {
    if (one_in(draw, 3) || view.dims[axis] == 0) continue;
    int32_t length = 1 + below(draw, view.dims[axis]);
    cut(&view, axis, below(draw, view.dims[axis] - length + 1), length);
  }
  return view;
}

static void step(dag_draw_t *draw, dag_view_t *view) {
  int axis = below(draw, view->rank);
  int32_t by = 2 + below(draw, 2);
  if (view->dims[axis] <= by) return;
  view->dims[axis] = (view->dims[axis] + by - 1) / by;
  view->strides[axis] *= by;
}

static void turn_round(dag_draw_t *draw, dag_view_t *view) {
  int axis = below(draw, view->rank);
  if (view->dims[axis] == 0) return;
  cut(view, axis, view->dims[axis] - 1, view->dims[axis]);
  view->strides[axis] = -view->strides[axis];
}

static void transpose(dag_draw_t *draw, dag_view_t *view) {
  int a = below(draw, view->rank), b = below(draw, view->rank);
  int32_t dim = view->dims[a], stride = view->strides[a];
  view->dims[a] = view->dims[b];
  view->strides[a] = view->strides[b];
  view->dims[b] = dim;
  view->strides[b] = stride;
}

// |length| elements of |dtype| from byte |offset|, as a row or under other dimensions.
static dag_view_t run_of(dag_draw_t *draw, uint8_t buffer, uint8_t dtype, int32_t offset, int32_t length) {
  dag_view_t view = {.buffer = buffer, .dtype = dtype, .rank = 1, .offset = offset, .dims = {length}, .strides = {1}};
  int32_t columns = 1 + below(draw, 8);
  if (length < columns || one_in(draw, 2)) return view;
  view.rank = 2;
  view.dims[0] = length / columns;
  view.dims[1] = columns;
  view.strides[0] = columns;
  view.strides[1] = 1;
  if (view.dims[0] % 2 == 0 && one_in(draw, 2)) {
    view.rank = 3;
    view.dims[2] = columns;
    view.strides[2] = 1;
    view.dims[1] = 2;
    view.strides[1] = columns;
    view.dims[0] /= 2;
    view.strides[0] = 2 * columns;
  }
  return view;
}

static dag_view_t bytes_as(dag_draw_t *draw, uint8_t buffer, uint8_t dtype) {
  int32_t size = dag_dtype_bytes(dtype), all = draw->program->buffers[buffer].bytes;
  if (all < size) return whole(draw->program, buffer);
  int32_t offset = below(draw, all - size + 1);
  if (!one_in(draw, 10)) offset -= offset % size;
  return run_of(draw, buffer, dtype, offset, 1 + below(draw, (all - offset) / size));
}

// What touches a byte more than once; for readers.
static dag_view_t windows(dag_draw_t *draw, uint8_t buffer) {
  dag_view_t view = slices(draw, buffer);
  if (view.rank == SLIP_MAX_RANK || dag_view_count(&view) > 200) return view;
  int axis = below(draw, view.rank);
  view.dims[view.rank] = 1 + below(draw, 4);
  view.strides[view.rank] = 0;
  if (one_in(draw, 2) && view.dims[axis] >= view.dims[view.rank]) {  // sliding
    view.strides[view.rank] = view.strides[axis];
    view.dims[axis] -= view.dims[view.rank] - 1;
  }
  ++view.rank;
  return view;
}

static dag_view_t draw_view(dag_draw_t *draw, uint8_t buffer, bool reads) {
  dag_program_t *program = draw->program;
  if (program->simple) {
    if (draw->with_whole && one_in(draw, 12)) return whole(program, buffer);
    if (program->simple == DAG_SHIFTED) return shifted(draw, buffer);
    return program->simple == DAG_SLICES ? slices(draw, buffer) : tile(draw, buffer, program->simple == DAG_HALOS && reads);
  }
  if (draw->seen_count && one_in(draw, 3)) {
    dag_view_t again = draw->seen[below(draw, (int32_t)draw->seen_count)];
    if (again.buffer == buffer) return again;
  }
  dag_view_t view;
  switch (below(draw, 13)) {
    case 12:
      view = shifted(draw, buffer);
      break;
    case 0:
      view = whole(program, buffer);
      break;
    case 1:
    case 2:
      view = tile(draw, buffer, 0);
      break;
    case 3:
      view = tile(draw, buffer, 1);
      break;
    case 4:
    case 5:
      view = slices(draw, buffer);
      break;
    case 6:
      view = bytes_as(draw, buffer, program->buffers[buffer].dtype);
      break;
    case 7:
      view = bytes_as(draw, buffer, random_dtype(draw));
      break;
    case 8:
      view = slices(draw, buffer);
      step(draw, &view);
      break;
    case 9:
      view = tile(draw, buffer, 0);
      step(draw, &view);
      break;
    case 10:
      view = reads ? windows(draw, buffer) : slices(draw, buffer);
      break;
    default:
      view = slices(draw, buffer);
      for (int axis = 0; axis < view.rank; ++axis) {
        if (view.dims[axis]) cut(&view, axis, below(draw, view.dims[axis]), 1);
      }
  }
  if (one_in(draw, 5)) transpose(draw, &view);
  if (one_in(draw, 12)) turn_round(draw, &view);
  if (one_in(draw, 60)) view.dims[below(draw, view.rank)] = 0;
  draw->seen[draw->seen_count < 16 ? draw->seen_count++ : (uint32_t)below(draw, 16)] = view;
  return view;
}

// --- Tasks --------------------------------------------------------------------------------------------------------------------------

static uint8_t some_buffer(dag_draw_t *draw) {
  int32_t storages = (int32_t)draw->program->storage_count, visible = (int32_t)draw->visible_count;
  if (draw->nested && visible > storages && one_in(draw, 2)) return draw->visible[storages + below(draw, visible - storages)];
  return draw->visible[below(draw, (int32_t)draw->visible_count)];
}

static dag_op_t *add_op(dag_draw_t *draw, dag_what_e what) {
  dag_program_t *program = draw->program;
  dag_op_t *op = &program->ops[program->op_count];
  *op = (dag_op_t){.what = (uint8_t)what, .id = (uint16_t)program->op_count, .blocks = 1};
  op->salt = slip_test_random(&draw->random);
  ++program->op_count;
  return op;
}

static void draw_deps(dag_draw_t *draw, dag_op_t *op, int32_t most) {
  int32_t count = below(draw, most + 1);
  uint32_t first = draw->graph_depth && !one_in(draw, 40) ? draw->graph_handles : 0;  // what is before a graph refuses its recording
  for (int32_t i = 0; i < count && draw->handle_count > first; ++i)
    op->deps[op->dep_count++] = draw->handles[first + (uint32_t)below(draw, (int32_t)(draw->handle_count - first))];
}

// The task's own arguments may overlap; then it has one block, so that the result is one.
static bool draw_argument(dag_draw_t *draw, dag_op_t *op, dag_bits_t *reads, dag_bits_t *writes, bool *inout_overlaps) {
  static const uint8_t accesses[3] = {SLIP_ACCESS_IN, SLIP_ACCESS_OUT_EXISTING, SLIP_ACCESS_INOUT};
  dag_arg_t *arg = &op->args[op->arg_count];
  uint8_t buffer = some_buffer(draw);
  arg->kind = (uint8_t)(one_in(draw, 2) ? DAG_READS : 1 + below(draw, 2));
  arg->access = accesses[arg->kind];
  if (!draw->program->simple && one_in(draw, 12)) arg->access = SLIP_ACCESS_NO_DEP;
  arg->view = draw_view(draw, buffer, arg->kind == DAG_READS);
  dag_bits_t bits = {{0}};
  bool overlaps = !dag_view_bits(draw->program, &arg->view, &bits) && arg->kind != DAG_READS;
  overlaps = overlaps || dag_bits_meet(&bits, writes) || (arg->kind != DAG_READS && dag_bits_meet(&bits, reads));
  if (overlaps && !*inout_overlaps) return false;
  if (overlaps) op->blocks = 0;
  dag_bits_t *into = arg->kind == DAG_READS ? reads : writes;
  for (int i = 0; i < DAG_WORDS; ++i) into->words[i] |= bits.words[i];
  ++op->arg_count;
  return true;
}

static void draw_predicate(dag_draw_t *draw, dag_op_t *op) {
  dag_view_t flag = draw_view(draw, some_buffer(draw), true);
  int64_t count = dag_view_count(&flag);
  int32_t size = dag_dtype_bytes(flag.dtype);
  if (flag.dtype == SLIP_DTYPE_F32 || flag.dtype == SLIP_DTYPE_F64 || count == 0) return;
  bool is_signed = flag.dtype >= SLIP_DTYPE_I8 && flag.dtype <= SLIP_DTYPE_I64;
  op->flag = flag;
  op->predicate_op = (uint8_t)(1 + below(draw, 6));
  op->index = below(draw, (int32_t)count);
  op->literal = is_signed ? 0 : size == 8 ? INT64_MAX : (int64_t)1 << (8 * size - 1);
}

static void draw_task(dag_draw_t *draw) {
  dag_op_t *op = add_op(draw, DAG_TASK);
  dag_bits_t reads = {{0}}, writes = {{0}};
  bool may_overlap = !draw->program->simple && one_in(draw, 4), makes = false;
  int32_t count = one_in(draw, 10) ? below(draw, DAG_ARGS + 1) : 1 + below(draw, 4);
  if (one_in(draw, 5) && count < DAG_ARGS) {
    uint8_t made;
    uint32_t visible = draw->visible_count;
    if (draw_intermediate(draw, &made)) {
      makes = true;
      --draw->visible_count;
      for (int32_t i = 0; i < count; ++i) (void)draw_argument(draw, op, &reads, &writes, &may_overlap);
      op->args[op->arg_count++] = (dag_arg_t){.view = whole(draw->program, made), .access = SLIP_ACCESS_OUT, .kind = DAG_OVERWRITES};
      draw->visible_count = visible + 1;
    }
  }
  for (int32_t i = 0; !makes && i < count; ++i) (void)draw_argument(draw, op, &reads, &writes, &may_overlap);
  if (!makes && one_in(draw, 6)) draw_predicate(draw, op);
  if (one_in(draw, 8)) draw_deps(draw, op, 4);
  bool single = op->blocks == 0;
  op->blocks = 1;
  if (!single && one_in(draw, 8)) op->blocks = 1 + (uint32_t)below(draw, one_in(draw, 8) ? 200 : 12);
  if (!single && one_in(draw, 30)) {
    op->gang = true;
    op->blocks = 1 + (uint32_t)below(draw, 4);
  }
  op->long_scalars = one_in(draw, 8);
  op->delay = one_in(draw, 4) ? (uint32_t)below(draw, 3000) : (uint32_t)below(draw, 50);
  if (one_in(draw, draw->nested ? 4 : 12)) op->delay = 100000 + (uint32_t)below(draw, 3);  // gives the core away
  draw->handles[draw->handle_count++] = op->id;
}

// An intermediate by create(), and the task that gives it its first values.
static void draw_create(dag_draw_t *draw) {
  uint8_t made;
  if (!draw_intermediate(draw, &made)) return;
  add_op(draw, DAG_CREATE)->buffer = made;
  dag_op_t *op = add_op(draw, DAG_TASK);
  op->args[op->arg_count++] = (dag_arg_t){.view = whole(draw->program, made), .access = SLIP_ACCESS_OUT_EXISTING, .kind = DAG_OVERWRITES};
  draw->handles[draw->handle_count++] = op->id;
}

static void draw_element(dag_draw_t *draw) {
  dag_view_t view = draw_view(draw, some_buffer(draw), true);
  int64_t count = dag_view_count(&view);
  if (count == 0) return;
  dag_op_t *op = add_op(draw, one_in(draw, 2) ? DAG_READ_ELEMENT : DAG_WRITE_ELEMENT);
  op->flag = view;
  op->index = below(draw, (int32_t)count);
  op->literal = (int64_t)slip_test_random(&draw->random);
}

static void begin(dag_draw_t *draw) {
  dag_op_t *op = add_op(draw, DAG_SCOPE);
  op->graph = draw->graphs && !one_in(draw, 3);
  op->mode = !op->graph && one_in(draw, 4) ? SLIP_SCOPE_MANUAL : SLIP_SCOPE_AUTO;
  draw->modes[++draw->depth] = op->mode;
  if (draw->depth <= 3) draw->heap_used[draw->depth] = 0;
  draw->visible_at[draw->depth] = draw->visible_count;
  if (!op->graph || draw->graph_depth) return;
  draw->graph_depth = draw->depth;
  draw->graph_handles = draw->handle_count;
}

static void end(dag_draw_t *draw) {
  add_op(draw, DAG_END);
  if (draw->graph_depth == draw->depth) draw->graph_depth = 0;
  draw->visible_count = draw->visible_at[draw->depth--];
}

// Small steps up and down, so that the heap of a ring is soon full of scopes that have ended.
static int32_t what_nested(dag_draw_t *draw) {
  static const uint8_t drawn[10] = {0, 1, 1, 2, 3, 3, 5, 6, 6, 6};
  if (draw->depth == 0 && one_in(draw, 2)) return 2;
  return draw->depth > 2 && one_in(draw, 2) ? 1 : drawn[below(draw, 10)];
}

void dag_generate(uint64_t seed, dag_program_t *out) {
  static const uint32_t windows_of[5] = {4, 8, 16, 64, 1024}, pools[4] = {8, 16, 64, 4096}, heaps[4] = {512, 1024, 2048, 1 << 20};
  dag_draw_t draw = {.program = out, .random = seed};
  memset(out, 0, sizeof(*out));
  out->seed = seed;
  draw.nested = one_in(&draw, 4);
  out->simple = (uint8_t)(one_in(&draw, 4) ? 1 + below(&draw, 4) : DAG_NOT_SIMPLE);
  draw.with_whole = one_in(&draw, 3);
  out->elements = !out->simple && one_in(&draw, 6);
  draw.graphs = !out->elements && one_in(&draw, 2);
  out->window = windows_of[below(&draw, 5)];
  out->pool = pools[below(&draw, 4)];
  out->heap = heaps[below(&draw, draw.nested ? 2 : 4)];
  for (int axis = 0; axis < 3; ++axis) draw.tile[axis] = 1 + below(&draw, 4);
  add_storages(&draw);
  int32_t steps = 2 + below(&draw, draw.nested || one_in(&draw, out->simple ? 2 : 3) ? 70 : 25);
  for (int32_t i = 0; i < steps && out->op_count < DAG_OPS - DAG_DEPTH - 2; ++i) {
    int32_t what = draw.nested ? what_nested(&draw) : below(&draw, 24);
    if (what == 0 && draw.depth < DAG_DEPTH) {
      begin(&draw);
    } else if (what == 1 && draw.depth > 0) {
      end(&draw);
    } else if (draw.graphs && what >= 22 && draw.depth < DAG_DEPTH) {
      begin(&draw);
    } else if (what == 2 && draw.depth < DAG_DEPTH) {
      begin(&draw);
      draw_create(&draw);
    } else if (what == 3) {
      draw_create(&draw);
    } else if (what == 4 && out->elements) {
      draw_element(&draw);
    } else if (what == 5 && !out->simple && one_in(&draw, 2)) {
      dag_op_t *op = add_op(&draw, DAG_JOIN);
      draw_deps(&draw, op, DAG_DEPS);
      draw.handles[draw.handle_count++] = op->id;
    } else {
      draw_task(&draw);
    }
  }
  while (draw.depth) end(&draw);
}
