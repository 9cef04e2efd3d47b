// SPDX-License-Identifier: Apache-2.0
#include "npy.h"

#include <stdio.h>
#include <string.h>

#define CLI_NPY_MAGIC      "\x93NUMPY"
#define CLI_NPY_MAGIC_SIZE 6
// NumPy's own headers are below 200 bytes; structured ones, which we refuse, can be longer.
#define CLI_NPY_MAX_HEADER 65536

static const struct {
  const char *descr;
  slip_dtype_t dtype;
} cli_npy_types[] = {
    {"<f4", SLIP_DTYPE_F32}, {"<f2", SLIP_DTYPE_F16}, {"<f8", SLIP_DTYPE_F64}, {"|i1", SLIP_DTYPE_I8},
    {"<i2", SLIP_DTYPE_I16}, {"<i4", SLIP_DTYPE_I32}, {"<i8", SLIP_DTYPE_I64}, {"|u1", SLIP_DTYPE_U8},
    {"<u2", SLIP_DTYPE_U16}, {"<u4", SLIP_DTYPE_U32}, {"<u8", SLIP_DTYPE_U64}, {"|b1", SLIP_DTYPE_BOOL},
};

// The header is a Python dictionary literal; this reads just what NumPy writes.
typedef struct cli_npy_cursor_t {
  const char *at;
  const char *end;
} cli_npy_cursor_t;

static void cli_npy_space(cli_npy_cursor_t *c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t' || *c->at == '\r')) ++c->at;
}

static bool cli_npy_accept(cli_npy_cursor_t *c, const char *token) {
  size_t length = strlen(token);
  cli_npy_space(c);
  if ((size_t)(c->end - c->at) < length || memcmp(c->at, token, length) != 0) return false;
  c->at += length;
  return true;
}

// A quoted string without escapes, borrowed.
static bool cli_npy_string(cli_npy_cursor_t *c, const char **out, size_t *out_length) {
  cli_npy_space(c);
  if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return false;
  char quote = *c->at++;
  *out = c->at;
  while (c->at < c->end && *c->at != quote && *c->at != '\\') ++c->at;
  if (c->at == c->end || *c->at != quote) return false;
  *out_length = (size_t)(c->at++ - *out);
  return true;
}

static bool cli_npy_integer(cli_npy_cursor_t *c, int64_t *out) {
  cli_npy_space(c);
  const char *start = c->at;
  for (*out = 0; c->at < c->end && *c->at >= '0' && *c->at <= '9'; ++c->at) {
    if (__builtin_mul_overflow(*out, 10, out) || __builtin_add_overflow(*out, *c->at - '0', out)) return false;
  }
  if (c->at == start) return false;
  if (c->at < c->end && *c->at == 'L') ++c->at;  // written by Python 2
  return true;
}

typedef struct cli_npy_header_t {
  const char *descr;  // NULL: none yet
  size_t descr_length;
  bool has_order, fortran, has_shape;
  size_t rank;
  int64_t dims[SLIP_MAX_RANK];
} cli_npy_header_t;

static slip_status_t cli_npy_bad(const char *what) {
  return SLIP_STATUS(SLIP_CODE_CORRUPT, "the .npy header %s", what);
}

static slip_status_t cli_npy_shape(cli_npy_cursor_t *c, cli_npy_header_t *header) {
  if (!cli_npy_accept(c, "(")) return cli_npy_bad("has a shape that is no tuple");
  header->has_shape = true;
  for (header->rank = 0; !cli_npy_accept(c, ")"); ++header->rank) {
    int64_t dim = 0;
    if (!cli_npy_integer(c, &dim)) return cli_npy_bad("has a dimension that is no integer in 0..2^63-1");
    if (header->rank < SLIP_MAX_RANK) header->dims[header->rank] = dim;
    if (!cli_npy_accept(c, ",")) {
      if (!cli_npy_accept(c, ")")) return cli_npy_bad("has a shape without an end");
      ++header->rank;
      break;
    }
  }
  return slip_ok_status();
}

static slip_status_t cli_npy_item(cli_npy_cursor_t *c, cli_npy_header_t *header) {
  const char *key = NULL;
  size_t length = 0;
  if (!cli_npy_string(c, &key, &length) || !cli_npy_accept(c, ":")) return cli_npy_bad("is no dictionary of three keys");
  if (length == 5 && memcmp(key, "descr", 5) == 0 && !header->descr) {
    if (cli_npy_string(c, &header->descr, &header->descr_length)) return slip_ok_status();
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "the .npy file has a structured dtype; save each field as an array of its own");
  }
  if (length == 13 && memcmp(key, "fortran_order", 13) == 0 && !header->has_order) {
    header->has_order = true;
    header->fortran = cli_npy_accept(c, "True");
    return header->fortran || cli_npy_accept(c, "False") ? slip_ok_status()
                                                         : cli_npy_bad("has a fortran_order that is neither True nor False");
  }
  if (length == 5 && memcmp(key, "shape", 5) == 0 && !header->has_shape) return cli_npy_shape(c, header);
  return cli_npy_bad("has an unknown or repeated key");
}

static slip_status_t cli_npy_dictionary(cli_npy_cursor_t c, cli_npy_header_t *header) {
  *header = (cli_npy_header_t){0};
  if (!cli_npy_accept(&c, "{")) return cli_npy_bad("is no dictionary");
  while (!cli_npy_accept(&c, "}")) {
    SLIP_RETURN_IF_ERROR(cli_npy_item(&c, header));
    if (!cli_npy_accept(&c, ",")) {
      if (!cli_npy_accept(&c, "}")) return cli_npy_bad("has no end");
      break;
    }
  }
  cli_npy_space(&c);
  if (c.at != c.end) return cli_npy_bad("has something behind the dictionary");
  if (!header->descr || !header->has_order || !header->has_shape) return cli_npy_bad("lacks one of descr, fortran_order and shape");
  return slip_ok_status();
}

static slip_status_t cli_npy_dtype(const cli_npy_header_t *header, slip_dtype_t declared, slip_dtype_t *out) {
  const char *descr = header->descr;
  size_t length = header->descr_length;
  for (size_t i = 0; i < sizeof(cli_npy_types) / sizeof(cli_npy_types[0]); ++i) {
    if (length != 3 || memcmp(descr, cli_npy_types[i].descr, 3) != 0) continue;
    *out = cli_npy_types[i].dtype;
    return slip_ok_status();
  }
  bool untyped2 = length == 3 && (memcmp(descr, "<V2", 3) == 0 || memcmp(descr, "|V2", 3) == 0);
  bool untyped1 = length == 3 && (memcmp(descr, "<V1", 3) == 0 || memcmp(descr, "|V1", 3) == 0 || memcmp(descr, "<f1", 3) == 0);
  slip_dtype_kind_e kind = slip_dtype_kind(declared);
  if ((untyped2 && declared == SLIP_DTYPE_BF16) || (untyped1 && (kind == SLIP_DTYPE_KIND_FLOAT8 || kind == SLIP_DTYPE_KIND_FLOAT4))) {
    *out = declared;
    return slip_ok_status();
  }
  if (untyped1 || untyped2) {
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED,
                       "the .npy file has the untyped dtype '%.*s', which is read as bf16 or an 8-bit float only where that is declared; "
                       "convert the array, "
                       "or save it as .safetensors, which names the type",
                       (int)length, descr);
  }
  if (length > 0 && descr[0] == '>') {
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED,
                       "the .npy file is big-endian ('%.*s'); save it little-endian with array.astype(array.dtype.newbyteorder('<'))",
                       (int)length, descr);
  }
  return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "the .npy dtype '%.*s' has no counterpart here", (int)(length < 32 ? length : 32), descr);
}

static slip_status_t cli_npy_locate(slip_const_bytes_t bytes, cli_npy_cursor_t *out, size_t *out_data) {
  if (bytes.size < CLI_NPY_MAGIC_SIZE + 4 || memcmp(bytes.data, CLI_NPY_MAGIC, CLI_NPY_MAGIC_SIZE) != 0) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "not a .npy file: it does not begin with \\x93NUMPY");
  }
  const uint8_t *b = bytes.data;
  size_t start = b[6] == 1 ? 10 : 12, length = (size_t)b[8] | (size_t)b[9] << 8;
  if (b[6] < 1 || b[6] > 3 || b[7] != 0)
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, ".npy version %u.%u is not known; 1.0 to 3.0 are", b[6], b[7]);
  if (bytes.size < start) return SLIP_STATUS(SLIP_CODE_CORRUPT, "the .npy file ends inside its header");
  if (b[6] > 1) length |= (size_t)b[10] << 16 | (size_t)b[11] << 24;
  if (length > CLI_NPY_MAX_HEADER)
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "the .npy header claims %zu bytes; at most %d are accepted", length, CLI_NPY_MAX_HEADER);
  if (length > bytes.size - start)
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "the .npy header claims %zu bytes, the file has %zu", length, bytes.size - start);
  *out = (cli_npy_cursor_t){(const char *)b + start, (const char *)b + start + length};
  *out_data = start + length;
  return slip_ok_status();
}

slip_status_t cli_npy_parse(slip_const_bytes_t bytes, slip_dtype_t declared, cli_array_t *out) {
  cli_npy_cursor_t cursor;
  cli_npy_header_t header;
  size_t start = 0;
  uint64_t size = 0;
  cli_array_t array = {0};
  *out = array;
  SLIP_RETURN_IF_ERROR(cli_npy_locate(bytes, &cursor, &start));
  SLIP_RETURN_IF_ERROR(cli_npy_dictionary(cursor, &header));
  SLIP_RETURN_IF_ERROR(cli_npy_dtype(&header, declared, &array.dtype));
  if (header.rank > SLIP_MAX_RANK)
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "the .npy file has rank %zu; the highest is %d", header.rank, SLIP_MAX_RANK);
  if (header.fortran && header.rank > 1) {
    return SLIP_STATUS(SLIP_CODE_UNSUPPORTED, "the .npy file is in Fortran order; save numpy.ascontiguousarray(array)");
  }
  array.rank = (uint8_t)header.rank;
  memcpy(array.dims, header.dims, sizeof(array.dims));
  if (!cli_array_size(array.dtype, array.rank, array.dims, &size))
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "the .npy shape needs more than 2^63-1 bytes");
  if (size != bytes.size - start) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "the .npy header promises %llu bytes of data, the file has %zu", (unsigned long long)size,
                       bytes.size - start);
  }
  array.data = (slip_const_bytes_t){bytes.data + start, bytes.size - start};
  *out = array;
  return slip_ok_status();
}

static const char *cli_npy_descr(slip_dtype_t dtype) {
  for (size_t i = 0; i < sizeof(cli_npy_types) / sizeof(cli_npy_types[0]); ++i) {
    if (cli_npy_types[i].dtype == dtype) return cli_npy_types[i].descr;
  }
  return slip_dtype_size_bytes(dtype) == 2 ? "<V2" : "|V1";
}

slip_status_t cli_npy_write(const char *path, const cli_array_t *array) {
  char shape[SLIP_MAX_RANK * 24] = "", header[512] = CLI_NPY_MAGIC "\x01";
  size_t used = 0;
  for (uint8_t i = 0; i < array->rank; ++i) {
    used += (size_t)snprintf(shape + used, sizeof(shape) - used, "%s%lld%s", i ? " " : "", (long long)array->dims[i],
                             array->rank == 1 || i + 1 < array->rank ? "," : "");
  }
  int length = snprintf(header + 10, sizeof(header) - 10, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }",
                        cli_npy_descr(array->dtype), shape);
  size_t total = (10 + (size_t)length + 1 + 63) / 64 * 64;  // the data begins on a 64-byte boundary, as NumPy's does
  memset(header + 10 + length, ' ', total - 10 - (size_t)length);
  header[total - 1] = '\n';
  header[7] = 0;
  header[8] = (char)((total - 10) & 0xff);
  header[9] = (char)((total - 10) >> 8);
  slip_const_bytes_t pieces[2] = {{(const uint8_t *)header, total}, array->data};
  return cli_file_write(path, pieces, 2);
}
