// SPDX-License-Identifier: Apache-2.0
#include "bind.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/npy.h"

static const char *cli_direction_name(uint32_t direction) {
  static const char *const names[] = {"?", "in", "out", "inout", "scalar"};
  return direction < sizeof(names) / sizeof(names[0]) ? names[direction] : "?";
}

// "f32[M,4]"
static void cli_param_text(const slip_param_t *param, char *text, size_t capacity) {
  size_t used = (size_t)snprintf(text, capacity, "%s[", slip_dtype_name(param->dtype));
  for (uint8_t d = 0; d < param->rank && used < capacity; ++d) {
    const char *comma = d ? "," : "";
    int length = param->dims[d] != SLIP_DIM_DYNAMIC
                     ? snprintf(text + used, capacity - used, "%s%lld", comma, (long long)param->dims[d])
                     : snprintf(text + used, capacity - used, "%s%s", comma, param->dim_names[d] ? param->dim_names[d] : "?");
    used += (size_t)length;
  }
  if (used < capacity) snprintf(text + used, capacity - used, "]");
}

// --- "name=value" ----------------------------------------------------------------------------------------------------

// Names as " x, y and 3 more", cut to |capacity|.
typedef struct cli_names_t {
  char *text;
  size_t capacity, used, left;
} cli_names_t;

static void cli_names_add(cli_names_t *names, const char *name) {
  if (names->left || names->used + strlen(name) + 32 > names->capacity) {
    ++names->left;
    return;
  }
  names->used += (size_t)snprintf(names->text + names->used, names->capacity - names->used, "%s '%s'", names->used ? "," : "", name);
}

static void cli_names_finish(cli_names_t *names) {
  if (names->left) snprintf(names->text + names->used, names->capacity - names->used, " and %zu more", names->left);
}

// The binding that |text| of --|option| names, and what is behind the '='.
static slip_status_t cli_bind_find(cli_bindings_t *b, const char *option, const char *text, cli_binding_t **out, const char **out_value) {
  const char *equals = strchr(text, '=');
  char name[128];
  *out = NULL;
  if (!equals || equals == text || !equals[1])
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "--%s '%s' has not the form name=value", option, text);
  int length = snprintf(name, sizeof(name), "%.*s", (int)(equals - text), text);
  int32_t index = length < (int)sizeof(name) ? slip_signature_find(b->signature, name) : -1;
  if (index < 0) {
    char list[512] = "";
    cli_names_t names = {list, sizeof(list), 0, 0};
    bool outputs = strcmp(option, "out") == 0;
    for (size_t i = 0; i < b->count; ++i) {
      if (!outputs || cli_param_is_output(b->items[i].param)) cli_names_add(&names, b->items[i].param->name);
    }
    cli_names_finish(&names);
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s has no parameter '%s' (--%s); its %s:%s", b->name, name, option,
                       outputs ? "outputs are" : "parameters are", list);
  }
  *out = &b->items[index];
  *out_value = equals + 1;
  return slip_ok_status();
}

// --- Files -----------------------------------------------------------------------------------------------------------

static bool cli_has_suffix(const char *text, size_t length, const char *suffix) {
  return length >= strlen(suffix) && memcmp(text + length - strlen(suffix), suffix, strlen(suffix)) == 0;
}

// Maps the file of |length| bytes of |path|, once.
static slip_status_t cli_bind_open(cli_bindings_t *b, const char *path, size_t length, cli_input_t **out) {
  *out = NULL;
  for (cli_input_t *input = b->inputs; input; input = input->next) {
    if (strlen(input->path) != length || memcmp(input->path, path, length) != 0) continue;
    *out = input;
    return slip_ok_status();
  }
  cli_input_t *input = calloc(1, sizeof(*input));
  if (input) input->path = strndup(path, length);
  if (!input || !input->path) {
    free(input);
    return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for the name of an input file");
  }
  input->next = b->inputs;
  b->inputs = input;  // from here on freed with the bindings
  SLIP_RETURN_IF_ERROR(cli_file_map(input->path, &input->bytes));
  if (cli_has_suffix(path, length, ".safetensors")) {
    SLIP_RETURN_IF_ERROR_ANNOTATED(cli_safetensors_parse(input->bytes, &input->tensors), "reading \"%s\"", input->path);
  }
  *out = input;
  return slip_ok_status();
}

// "file.npy", "file.safetensors" (the tensor is called as the parameter) or "file.safetensors:tensor".
static slip_status_t cli_bind_file(cli_bindings_t *b, cli_binding_t *binding, const char *text) {
  const char *mark = strstr(text, ".safetensors:");
  size_t length = mark ? (size_t)(mark - text) + strlen(".safetensors") : strlen(text);
  const char *name = mark ? text + length + 1 : binding->param->name;
  cli_input_t *input = NULL;
  SLIP_RETURN_IF_ERROR_ANNOTATED(cli_bind_open(b, text, length, &input), "argument '%s'", binding->param->name);
  binding->has_array = true;
  if (!cli_has_suffix(text, length, ".safetensors")) {
    SLIP_RETURN_IF_ERROR_ANNOTATED(cli_npy_parse(input->bytes, binding->param->dtype, &binding->array), "reading \"%s\" for argument '%s'",
                                   input->path, binding->param->name);
    return slip_ok_status();
  }
  const cli_safetensor_t *item = cli_safetensors_find(&input->tensors, name);
  if (!item) {
    return SLIP_STATUS(SLIP_CODE_NOT_FOUND,
                       "\"%s\" has no tensor '%s' for argument '%s'; name one behind a colon (file.safetensors:tensor)", input->path, name,
                       binding->param->name);
  }
  return cli_safetensors_array(&input->tensors, item, &binding->array);
}

// --- --arg, --out, --weights -----------------------------------------------------------------------------------------

static slip_status_t cli_bind_arg(cli_bindings_t *b, const char *text) {
  cli_binding_t *binding = NULL;
  const char *value = NULL;
  SLIP_RETURN_IF_ERROR(cli_bind_find(b, "arg", text, &binding, &value));
  const slip_param_t *param = binding->param;
  if (binding->text) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "argument '%s' is given twice", param->name);
  binding->text = text;
  if (param->direction == SLIP_DIRECTION_SCALAR) {
    if (value[0] == '@')
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "argument '%s' is a scalar (%s); give a number, not a file", param->name,
                         slip_dtype_name(param->dtype));
    SLIP_RETURN_IF_ERROR_ANNOTATED(slip_scalar_parse(param->dtype, value, &binding->scalar), "argument '%s'", param->name);
    return slip_ok_status();
  }
  if (value[0] == '@') return cli_bind_file(b, binding, value + 1);
  char type[256];
  cli_param_text(param, type, sizeof(type));
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                     "argument '%s' is a tensor (%s %s); give a file: %s=@file.npy or %s=@file.safetensors:tensor", param->name,
                     cli_direction_name(param->direction), type, param->name, param->name);
}

static slip_status_t cli_bind_out(cli_bindings_t *b, const char *text) {
  cli_binding_t *binding = NULL;
  const char *value = NULL;
  SLIP_RETURN_IF_ERROR(cli_bind_find(b, "out", text, &binding, &value));
  const char *name = binding->param->name;
  if (!cli_param_is_output(binding->param)) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "--out %s: the parameter is %s, not an output", name,
                       cli_direction_name(binding->param->direction));
  }
  if (binding->out_path) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "--out %s is given twice", name);
  if (value[0] != '@' || !value[1]) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "--out %s: give a file: %s=@file.npy", name, name);
  if (cli_has_suffix(value, strlen(value), ".safetensors")) {
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "--out %s: outputs are written as .npy, not .safetensors", name);
  }
  binding->out_path = value + 1;
  return slip_ok_status();
}

// A tensor's name as an identifier: everything else becomes '_'.
static bool cli_weight_is(const char *tensor, const char *param) {
  for (; *tensor && *param; ++tensor, ++param) {
    bool plain = (*tensor >= 'a' && *tensor <= 'z') || (*tensor >= 'A' && *tensor <= 'Z') || (*tensor >= '0' && *tensor <= '9');
    if (*param != (plain ? *tensor : '_')) return false;
  }
  return *tensor == *param;
}

// Gives each IN tensor that --arg left open the weight of its name.
static slip_status_t cli_bind_weights(cli_bindings_t *b, const char *path) {
  cli_input_t *input = NULL;
  if (!cli_has_suffix(path, strlen(path), ".safetensors"))
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "--weights takes a .safetensors file, not \"%s\"", path);
  SLIP_RETURN_IF_ERROR(cli_bind_open(b, path, strlen(path), &input));
  for (size_t i = 0; i < b->count; ++i) {
    cli_binding_t *binding = &b->items[i];
    const cli_safetensor_t *found = NULL;
    if (binding->param->direction != SLIP_DIRECTION_IN || binding->text) continue;
    for (size_t j = 0; j < input->tensors.count; ++j) {
      const cli_safetensor_t *item = &input->tensors.items[j];
      if (!cli_weight_is(item->name, binding->param->name)) continue;
      if (found || binding->has_array) {
        return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "several weights fit argument '%s' ('%s' is one); name one with --arg",
                           binding->param->name, item->name);
      }
      found = item;
    }
    if (!found) continue;
    binding->has_array = true;
    SLIP_RETURN_IF_ERROR_ANNOTATED(cli_safetensors_array(&input->tensors, found, &binding->array), "reading \"%s\"", path);
  }
  return slip_ok_status();
}

// --- Dimensions ------------------------------------------------------------------------------------------------------

cli_bound_dim_t *cli_dim_find(const cli_bindings_t *b, const char *name) {
  for (size_t i = 0; i < b->dim_count; ++i) {
    if (strcmp(b->dims[i].name, name) == 0) return &b->dims[i];
  }
  return NULL;
}

// Inputs fix the symbols; where they disagree, the frame says so with all names.
static void cli_dims_from_inputs(cli_bindings_t *b) {
  for (size_t i = 0; i < b->count; ++i) {
    const cli_binding_t *binding = &b->items[i];
    if (!binding->has_array || binding->array.rank != binding->param->rank) continue;
    for (uint8_t d = 0; d < binding->param->rank; ++d) {
      const char *symbol = binding->param->dim_names[d];
      if (symbol && !cli_dim_find(b, symbol))
        b->dims[b->dim_count++] = (cli_bound_dim_t){symbol, binding->array.dims[d], binding->param->name};
    }
  }
}

// The signature's own copy of the symbol |name|; NULL if no parameter has it.
static const char *cli_dim_symbol(const cli_bindings_t *b, const char *name, size_t length) {
  for (size_t i = 0; i < b->count; ++i) {
    for (uint8_t d = 0; d < b->items[i].param->rank; ++d) {
      const char *symbol = b->items[i].param->dim_names[d];
      if (symbol && strlen(symbol) == length && memcmp(symbol, name, length) == 0) return symbol;
    }
  }
  return NULL;
}

// Each symbol once.
static void cli_dim_names(const cli_bindings_t *b, cli_names_t *names) {
  for (size_t i = 0; i < b->count; ++i) {
    const slip_param_t *param = b->items[i].param;
    for (uint8_t d = 0; d < param->rank; ++d) {
      const char *symbol = param->dim_names[d];
      bool seen = !symbol;
      for (size_t j = 0; j <= i && !seen; ++j) {
        for (uint8_t e = 0; e < (j < i ? b->items[j].param->rank : d) && !seen; ++e) {
          const char *earlier = b->items[j].param->dim_names[e];
          seen = earlier && strcmp(earlier, symbol) == 0;
        }
      }
      if (!seen) cli_names_add(names, symbol);
    }
  }
  cli_names_finish(names);
}

static slip_status_t cli_bind_dim(cli_bindings_t *b, const char *text) {
  const char *equals = strchr(text, '=');
  char *end = NULL;
  if (!equals || equals == text || !equals[1])
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "--dim '%s' has not the form NAME=VALUE", text);
  const char *symbol = cli_dim_symbol(b, text, (size_t)(equals - text));
  if (!symbol) {
    char list[512] = "";
    cli_names_t names = {list, sizeof(list), 0, 0};
    cli_dim_names(b, &names);
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s has no dimension '%.*s' (--dim); its dimensions are:%s", b->name,
                       (int)(equals - text), text, list[0] ? list : " none");
  }
  errno = 0;
  long long value = strtoll(equals + 1, &end, 10);
  if (errno != 0 || *end || equals[1] < '0' || equals[1] > '9') {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "--dim %s: '%s' is no integer in 0..2^63-1", symbol, equals + 1);
  }
  const cli_bound_dim_t *known = cli_dim_find(b, symbol);
  if (known && known->value != value) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "--dim %s=%lld contradicts %s, which makes it %lld", symbol, value, known->source,
                       (long long)known->value);
  }
  if (!known) b->dims[b->dim_count++] = (cli_bound_dim_t){symbol, value, "--dim"};
  return slip_ok_status();
}

// --- All of it -------------------------------------------------------------------------------------------------------

// An input of another rank fixes no dimension; that is the mistake then, not a missing --dim.
static slip_status_t cli_bind_check_ranks(const cli_bindings_t *b) {
  for (size_t i = 0; i < b->count; ++i) {
    const cli_binding_t *binding = &b->items[i];
    if (!binding->has_array || binding->array.rank == binding->param->rank) continue;
    char type[256];
    cli_param_text(binding->param, type, sizeof(type));
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT,
                       "argument '%s' is %s, of rank %u, but its file holds an array of rank %u; reshape it first", binding->param->name,
                       type, binding->param->rank, binding->array.rank);
  }
  return slip_ok_status();
}

static slip_status_t cli_bind_complete(const cli_bindings_t *b) {
  char text[512] = "";
  cli_names_t names = {text, sizeof(text), 0, 0};
  size_t count = 0;
  const slip_param_t *first = NULL;
  for (size_t i = 0; i < b->count; ++i) {
    const cli_binding_t *binding = &b->items[i];
    if (binding->text || binding->has_array || binding->param->direction == SLIP_DIRECTION_OUT) continue;
    if (!first) first = binding->param;
    ++count;
    cli_names_add(&names, binding->param->name);
  }
  cli_names_finish(&names);
  if (count == 0) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "%s: %zu argument%s missing:%s; give --arg %s=%s%s", b->name, count,
                     count == 1 ? " is" : "s are", text, first->name, first->direction == SLIP_DIRECTION_SCALAR ? "VALUE" : "@file.npy",
                     count > 1 ? " and so on, or --weights file.safetensors" : "");
}

static slip_status_t cli_bind_each(cli_bindings_t *b, const cli_invocation_t *invocation, const char *option,
                                   slip_status_t (*bind)(cli_bindings_t *bindings, const char *text)) {
  for (size_t i = 0; i < invocation->given_count; ++i) {
    if (strcmp(invocation->given[i].option->name, option) == 0) SLIP_RETURN_IF_ERROR(bind(b, invocation->given[i].value));
  }
  return slip_ok_status();
}

slip_status_t cli_bindings_initialize(cli_bindings_t *b, const cli_invocation_t *invocation, slip_signature_t *signature, const char *name,
                                      const cli_place_t *place) {
  *b = (cli_bindings_t){.name = name, .signature = signature, .place = *place, .count = slip_signature_param_count(signature)};
  b->items = calloc(b->count + 1, sizeof(*b->items));
  b->dims = calloc(b->count * SLIP_MAX_RANK + 1, sizeof(*b->dims));
  if (!b->items || !b->dims) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for %zu arguments", b->count);
  for (size_t i = 0; i < b->count; ++i) b->items[i].param = slip_signature_param(signature, i);
  SLIP_RETURN_IF_ERROR(cli_bind_each(b, invocation, "arg", cli_bind_arg));
  SLIP_RETURN_IF_ERROR(cli_bind_each(b, invocation, "weights", cli_bind_weights));
  SLIP_RETURN_IF_ERROR(cli_bind_each(b, invocation, "out", cli_bind_out));
  SLIP_RETURN_IF_ERROR(cli_bind_complete(b));
  SLIP_RETURN_IF_ERROR(cli_bind_check_ranks(b));
  cli_dims_from_inputs(b);
  SLIP_RETURN_IF_ERROR(cli_bind_each(b, invocation, "dim", cli_bind_dim));
  for (size_t i = 0; i < b->count; ++i) {
    if (b->items[i].param->direction != SLIP_DIRECTION_SCALAR) SLIP_RETURN_IF_ERROR(cli_binding_place(b, &b->items[i]));
  }
  return slip_ok_status();
}

void cli_bindings_forget(cli_bindings_t *b) {
  for (size_t i = 0; b->items && i < b->count; ++i) b->items[i].memory = NULL;
}

slip_status_t cli_bindings_deinitialize(cli_bindings_t *b) {
  slip_status_t status = slip_ok_status();
  for (size_t i = 0; b->items && i < b->count; ++i) {
    slip_status_t freed = cli_binding_free(b, &b->items[i]);
    if (slip_status_is_ok(status)) {
      status = freed;
    } else {
      slip_status_free(freed);  // of a broken device: the same once more
    }
  }
  while (b->inputs) {
    cli_input_t *input = b->inputs;
    b->inputs = input->next;
    cli_safetensors_deinitialize(&input->tensors);
    cli_file_unmap(input->bytes);
    free(input->path);
    free(input);
  }
  free(b->items);
  free(b->dims);
  *b = (cli_bindings_t){0};
  return status;
}

slip_status_t cli_bindings_frame(const cli_bindings_t *b, slip_frame_t *frame) {
  slip_arg_t *args = calloc(b->count + 1, sizeof(*args));
  if (!args) return SLIP_STATUS(SLIP_CODE_OUT_OF_MEMORY, "no memory for %zu arguments", b->count);
  for (size_t i = 0; i < b->count; ++i) {
    const cli_binding_t *binding = &b->items[i];
    bool scalar = binding->param->direction == SLIP_DIRECTION_SCALAR;
    args[i] = scalar ? slip_arg_scalar(binding->scalar) : slip_arg_tensor(&binding->tensor, NULL);
  }
  slip_status_t status = slip_frame_initialize(frame, b->signature, b->name, b->place.device, args, b->count, SLIP_FRAME_NONE);
  free(args);
  return status;
}
