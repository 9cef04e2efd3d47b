// SPDX-License-Identifier: Apache-2.0
// The text form of a signature:
//
//   signature := '(' [ param { ',' param } ] ')' [ '->' '(' [ name { ',' name } ] ')' ]
//   param     := [ 'in' | 'out' | 'inout' ] name ':' dtype [ '[' [ dim { ',' dim } ] ']' [ 'nd' | 'nz' ] ]
//   dim       := number | symbol | '?'
//
// The printed form is canonical: one space after ',' and ':', a direction at the first tensor and where it changes, `nz` only, no `->`
// without return values.
#include <string.h>

#include "base/allocator.h"
#include "contract/signature.h"
#include "contract/text.h"

// --- printing -------------------------------------------------------------------------------------------------------------------------

static void slip__text_add_dims(slip__text_t *text, const slip_param_t *param) {
  slip__text_add(text, "[");
  for (uint32_t d = 0; d < param->rank; ++d) {
    if (d) slip__text_add(text, ",");
    if (param->dims[d] != SLIP_DIM_DYNAMIC) {
      slip__text_add(text, "%lld", (long long)param->dims[d]);
    } else {
      slip__text_add(text, "%s", param->dim_names[d] ? param->dim_names[d] : "?");
    }
  }
  slip__text_add(text, "]%s", param->layout == SLIP_LAYOUT_NZ ? " nz" : "");
}

size_t slip_signature_format(const slip_signature_t *signature, char *buffer, size_t capacity) {
  slip__text_t text = slip__text(buffer, capacity);
  uint32_t direction = 0;
  slip__text_add(&text, "(");
  for (uint32_t i = 0; i < signature->param_count; ++i) {
    const slip_param_t *param = &signature->params[i];
    bool tensor = param->direction != SLIP_DIRECTION_SCALAR;
    if (i) slip__text_add(&text, ", ");
    if (tensor && param->direction != direction) {
      direction = param->direction;
      slip__text_add(&text, "%s ", slip__direction_name(direction));
    }
    slip__text_add(&text, "%s: %s", param->name, slip_dtype_name(param->dtype));
    if (tensor) slip__text_add_dims(&text, param);
  }
  slip__text_add(&text, ")");
  for (uint32_t i = 0; i < signature->alias_count; ++i) {
    slip__text_add(&text, "%s%s", i ? ", " : " -> (", signature->params[signature->aliases[i]].name);
  }
  if (signature->alias_count) slip__text_add(&text, ")");
  return text.length;
}

// --- parsing --------------------------------------------------------------------------------------------------------------------------

typedef struct slip__signature_parser_t {
  const char *text;
  size_t length;
  size_t at;
  char *strings;  // terminated copies of the identifiers; room for every one the text can hold
  slip_param_t *params;
  size_t param_count;
  int32_t *aliases;
  size_t alias_count;
  uint32_t direction;
} slip__signature_parser_t;

static void slip__parser_skip_space(slip__signature_parser_t *parser) {
  while (parser->at < parser->length && memchr(" \t\r\n", parser->text[parser->at], 4)) ++parser->at;
}

// The next character that is not space; NUL at the end.
static char slip__parser_peek(slip__signature_parser_t *parser) {
  slip__parser_skip_space(parser);
  return parser->at < parser->length ? parser->text[parser->at] : '\0';
}

static slip_status_t slip__parser_expected(slip__signature_parser_t *parser, const char *expected) {
  slip__parser_skip_space(parser);
  size_t column = parser->at + 1;
  if (parser->at >= parser->length) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "column %zu: expected %s, came the end of the text", column, expected);
  }
  unsigned char c = (unsigned char)parser->text[parser->at];
  if (c < 0x20 || c > 0x7e) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "column %zu: expected %s, came byte 0x%02x", column, expected, c);
  }
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "column %zu: expected %s, came '%c'", column, expected, c);
}

static bool slip__parser_accept(slip__signature_parser_t *parser, char c) {
  if (parser->at >= parser->length || slip__parser_peek(parser) != c || parser->at >= parser->length) return false;
  ++parser->at;
  return true;
}

static slip_status_t slip__parser_require(slip__signature_parser_t *parser, char c, const char *expected) {
  return slip__parser_accept(parser, c) ? slip_ok_status() : slip__parser_expected(parser, expected);
}

// Copies the next identifier into the string space.
static slip_status_t slip__parser_identifier(slip__signature_parser_t *parser, const char *expected, const char **out) {
  *out = NULL;
  if (!slip__is_identifier_start(slip__parser_peek(parser))) return slip__parser_expected(parser, expected);
  size_t begin = parser->at;
  while (parser->at < parser->length && slip__is_identifier_part(parser->text[parser->at])) ++parser->at;
  size_t size = parser->at - begin;
  *out = memcpy(parser->strings, parser->text + begin, size);
  parser->strings[size] = '\0';
  parser->strings += size + 1;
  return slip_ok_status();
}

static slip_status_t slip__parser_number(slip__signature_parser_t *parser, int64_t *out) {
  size_t column = parser->at + 1;
  int64_t value = 0;
  while (parser->at < parser->length && parser->text[parser->at] >= '0' && parser->text[parser->at] <= '9') {
    if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, parser->text[parser->at] - '0', &value)) {
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "column %zu: the dim is beyond 2^63-1; use a smaller one", column);
    }
    ++parser->at;
  }
  *out = value;
  return value > 0 ? slip_ok_status()
                   : SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "column %zu: dim 0; dims are above 0, a symbol or ?", column);
}

static slip_status_t slip__parser_dim(slip__signature_parser_t *parser, slip_param_t *param) {
  char c = slip__parser_peek(parser);
  if (param->rank == SLIP_MAX_RANK) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "column %zu: '%s' has more than %d dims; reshape the parameter", parser->at + 1,
                       param->name, SLIP_MAX_RANK);
  }
  uint32_t d = param->rank++;
  if (c >= '0' && c <= '9') return slip__parser_number(parser, &param->dims[d]);
  param->dims[d] = SLIP_DIM_DYNAMIC;
  if (slip__parser_accept(parser, '?')) return slip_ok_status();
  return slip__parser_identifier(parser, "a dim (a number, a symbol or ?)", &param->dim_names[d]);
}

// The part of a tensor after its dtype; the '[' is read already.
static slip_status_t slip__parser_shape(slip__signature_parser_t *parser, slip_param_t *param) {
  param->layout = SLIP_LAYOUT_ND;
  if (!slip__parser_accept(parser, ']')) {
    do {
      SLIP_RETURN_IF_ERROR(slip__parser_dim(parser, param));
    } while (slip__parser_accept(parser, ','));
    SLIP_RETURN_IF_ERROR(slip__parser_require(parser, ']', "',' or ']' after a dim"));
  }
  if (!slip__is_identifier_start(slip__parser_peek(parser))) return slip_ok_status();
  size_t column = parser->at + 1;
  const char *layout;
  SLIP_RETURN_IF_ERROR(slip__parser_identifier(parser, "a layout", &layout));
  if (strcmp(layout, "nz") == 0) param->layout = SLIP_LAYOUT_NZ;
  if (strcmp(layout, slip__layout_name(param->layout)) == 0) return slip_ok_status();
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "column %zu: layout '%.32s' is unknown; use nd or nz", column, layout);
}

static uint32_t slip__direction_from_name(const char *name) {
  for (uint32_t i = SLIP_DIRECTION_IN; i <= SLIP_DIRECTION_INOUT; ++i) {
    if (strcmp(name, slip__direction_name(i)) == 0) return i;
  }
  return 0;
}

static slip_status_t slip__parser_param(slip__signature_parser_t *parser) {
  slip_param_t *param = &parser->params[parser->param_count];
  memset(param, 0, sizeof(*param));
  const char *word, *dtype;
  bool directed = false;
  SLIP_RETURN_IF_ERROR(slip__parser_identifier(parser, "a parameter name", &word));
  // A parameter may be called `in` or `out`: the word is a direction only where a name follows.
  if (slip__parser_peek(parser) != ':' && slip__direction_from_name(word)) {
    parser->direction = slip__direction_from_name(word);
    directed = true;
    SLIP_RETURN_IF_ERROR(slip__parser_identifier(parser, "a parameter name", &word));
  }
  param->name = word;
  SLIP_RETURN_IF_ERROR(slip__parser_require(parser, ':', "':' after the parameter name"));
  (void)slip__parser_peek(parser);
  size_t column = parser->at + 1;
  SLIP_RETURN_IF_ERROR(slip__parser_identifier(parser, "a dtype", &dtype));
  param->dtype = slip_dtype_from_name(dtype, strlen(dtype));
  if (param->dtype == SLIP_DTYPE_NONE) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "column %zu: dtype '%.32s' of '%.64s' is unknown; use f32, bf16, i32, ...", column,
                       dtype, param->name);
  }
  ++parser->param_count;
  param->direction = parser->direction;
  if (slip__parser_accept(parser, '[')) return slip__parser_shape(parser, param);
  if (directed && parser->direction != SLIP_DIRECTION_IN) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "column %zu: '%.64s' is a scalar and cannot be %s; write %s[] for a tensor of rank 0",
                       column, param->name, slip__direction_name(parser->direction), dtype);
  }
  param->direction = SLIP_DIRECTION_SCALAR;
  return slip_ok_status();
}

// Finds by position in the text's own list: the signature does not exist yet. Aliases are few.
static slip_status_t slip__parser_alias(slip__signature_parser_t *parser) {
  (void)slip__parser_peek(parser);
  size_t column = parser->at + 1;
  const char *name;
  SLIP_RETURN_IF_ERROR(slip__parser_identifier(parser, "the name of a returned parameter", &name));
  for (size_t i = 0; i < parser->param_count; ++i) {
    if (strcmp(parser->params[i].name, name) != 0) continue;
    parser->aliases[parser->alias_count++] = (int32_t)i;
    return slip_ok_status();
  }
  return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "column %zu: '%.64s' is no parameter; return an OUT or INOUT one", column, name);
}

static slip_status_t slip__parser_run(slip__signature_parser_t *parser) {
  SLIP_RETURN_IF_ERROR(slip__parser_require(parser, '(', "'('"));
  if (!slip__parser_accept(parser, ')')) {
    do {
      SLIP_RETURN_IF_ERROR(slip__parser_param(parser));
    } while (slip__parser_accept(parser, ','));
    SLIP_RETURN_IF_ERROR(slip__parser_require(parser, ')', "',' or ')' after a parameter"));
  }
  if (slip__parser_accept(parser, '-')) {
    SLIP_RETURN_IF_ERROR(slip__parser_require(parser, '>', "'>' of '->'"));
    SLIP_RETURN_IF_ERROR(slip__parser_require(parser, '(', "'(' after '->'"));
    if (!slip__parser_accept(parser, ')')) {
      do {
        SLIP_RETURN_IF_ERROR(slip__parser_alias(parser));
      } while (slip__parser_accept(parser, ','));
      SLIP_RETURN_IF_ERROR(slip__parser_require(parser, ')', "',' or ')' after a returned parameter"));
    }
  }
  slip__parser_skip_space(parser);
  return parser->at == parser->length ? slip_ok_status() : slip__parser_expected(parser, "the end of the text");
}

slip_status_t slip_signature_parse(const char *text, size_t length, slip_allocator_t allocator, slip_signature_t **out) {
  *out = NULL;
  allocator = slip__allocator_or_system(allocator);
  size_t params = 1, aliases = 1;
  for (size_t i = 0; i < length; ++i) {
    params += text[i] == ':';
    aliases += text[i] == ',';
  }
  if (length > SIZE_MAX / 4) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the text is %zu bytes long", length);
  slip__signature_parser_t parser = {.text = text, .length = length, .direction = SLIP_DIRECTION_IN};
  size_t string_size = 2 * length + 2;
  void *string_block = NULL, *param_block = NULL, *alias_block = NULL;
  slip_status_t status = slip__alloc(allocator, string_size, &string_block);
  if (slip_status_is_ok(status)) status = slip__alloc_array(allocator, params, sizeof(slip_param_t), &param_block);
  if (slip_status_is_ok(status)) status = slip__alloc_array(allocator, aliases, sizeof(int32_t), &alias_block);
  parser.strings = string_block;
  parser.params = param_block;
  parser.aliases = alias_block;
  if (slip_status_is_ok(status)) status = slip__parser_run(&parser);
  if (slip_status_is_ok(status)) {
    status = slip_signature_create(parser.params, parser.param_count, parser.aliases, parser.alias_count, allocator, out);
  }
  slip__free(allocator, alias_block, aliases * sizeof(int32_t));
  slip__free(allocator, param_block, params * sizeof(slip_param_t));
  slip__free(allocator, string_block, string_size);
  return status;
}
