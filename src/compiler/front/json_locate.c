// SPDX-License-Identifier: Apache-2.0
#include "compiler/front/json_locate.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef struct slip__json_cursor_t {
  const char *text;
  size_t size;
  size_t at;
} slip__json_cursor_t;

static char slip__json_peek(const slip__json_cursor_t *c) {
  return c->at < c->size ? c->text[c->at] : '\0';
}

static void slip__json_skip_space(slip__json_cursor_t *c) {
  while (c->at < c->size && strchr(" \t\r\n", c->text[c->at])) ++c->at;
}

static void slip__json_skip_string(slip__json_cursor_t *c) {
  for (++c->at; c->at < c->size && c->text[c->at] != '"'; ++c->at) {
    if (c->text[c->at] == '\\') ++c->at;
  }
  if (c->at < c->size) ++c->at;
}

// Brackets are counted, not recursed into: the depth of the text is not the depth of our stack.
static void slip__json_skip_value(slip__json_cursor_t *c) {
  size_t depth = 0;
  do {
    slip__json_skip_space(c);
    char ch = slip__json_peek(c);
    if (ch == '"') {
      slip__json_skip_string(c);
    } else if (ch == '{' || ch == '[') {
      ++depth;
      ++c->at;
    } else if (ch == '}' || ch == ']') {
      --depth;
      ++c->at;
    } else if (ch == ',' || ch == ':') {
      ++c->at;
    } else {
      while (c->at < c->size && !strchr(" \t\r\n,:{}[]\"", c->text[c->at])) ++c->at;
    }
  } while (depth > 0 && c->at < c->size);
}

// From the '{' to the value of |key|. Keys with escapes are compared as written: ours have none, and a miss only costs precision.
static bool slip__json_enter_member(slip__json_cursor_t *c, const char *key) {
  size_t length = strlen(key);
  for (++c->at; c->at < c->size;) {
    slip__json_skip_space(c);
    if (slip__json_peek(c) != '"') return false;
    size_t start = c->at + 1;
    slip__json_skip_string(c);
    bool found = c->at - start == length + 1 && memcmp(c->text + start, key, length) == 0;
    slip__json_skip_space(c);
    ++c->at;  // ':'
    slip__json_skip_space(c);
    if (found) return true;
    slip__json_skip_value(c);
    slip__json_skip_space(c);
    if (slip__json_peek(c) != ',') return false;
    ++c->at;
  }
  return false;
}

static bool slip__json_enter_item(slip__json_cursor_t *c, size_t index) {
  ++c->at;
  for (size_t i = 0; c->at < c->size; ++i) {
    slip__json_skip_space(c);
    if (slip__json_peek(c) == ']') return false;
    if (i == index) return true;
    slip__json_skip_value(c);
    slip__json_skip_space(c);
    if (slip__json_peek(c) != ',') return false;
    ++c->at;
  }
  return false;
}

static bool slip__json_enter(slip__json_cursor_t *c, const slip__json_path_t *path) {
  if (!path) {
    slip__json_skip_space(c);
    return true;
  }
  if (!slip__json_enter(c, path->parent)) return false;
  size_t parent = c->at;
  char open = slip__json_peek(c);
  bool found = path->key ? open == '{' && slip__json_enter_member(c, path->key) : open == '[' && slip__json_enter_item(c, path->index);
  if (!found) c->at = parent;
  return found;
}

slip__json_position_t slip__json_locate(const char *text, size_t size, const slip__json_path_t *path) {
  slip__json_cursor_t cursor = {text, size, 0};
  slip__json_enter(&cursor, path);
  slip__json_position_t position = {1, 1};
  for (size_t i = 0; i < cursor.at && i < size; ++i) {
    ++position.column;
    if (text[i] == '\n') position = (slip__json_position_t){position.line + 1, 1};
  }
  return position;
}

size_t slip__json_path_format(const slip__json_path_t *path, char *buffer, size_t capacity) {
  if (!path) {
    if (capacity) buffer[0] = '\0';
    return 0;
  }
  size_t used = slip__json_path_format(path->parent, buffer, capacity);
  char *rest = used < capacity ? buffer + used : NULL;
  size_t room = used < capacity ? capacity - used : 0;
  int length = path->key ? snprintf(rest, room, "%s%s", used ? "." : "", path->key) : snprintf(rest, room, "[%zu]", path->index);
  return used + (size_t)(length > 0 ? length : 0);
}
