// SPDX-License-Identifier: Apache-2.0
#include "compiler/toolchain/messages.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLIP__PATH_CAPACITY 4096

static const struct {
  const char *mark;
  slip_severity_e severity;
} slip__message_marks[] = {
    {": fatal error: ", SLIP_SEVERITY_ERROR},
    {": error: ", SLIP_SEVERITY_ERROR},
    {": warning: ", SLIP_SEVERITY_WARNING},
    {": note: ", SLIP_SEVERITY_NOTE},
};

// Cuts "file:line:column" or "file:line" from the right. False if there is no number: not a place in a source.
static bool slip__message_place(char *text, uint32_t *out_line, uint32_t *out_column) {
  unsigned long numbers[2] = {0, 0};
  int count = 0;
  for (char *colon = strrchr(text, ':'); count < 2 && colon && colon[1]; colon = strrchr(text, ':')) {
    char *end = NULL;
    unsigned long number = strtoul(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end) break;
    numbers[count++] = number;
    *colon = '\0';
  }
  *out_column = count == 2 ? (uint32_t)numbers[0] : 0;
  *out_line = count == 2 ? (uint32_t)numbers[1] : (uint32_t)numbers[0];
  return count > 0;
}

static void slip__message_file(const char *place, const char *directory, const char *build_dir, char *out, size_t capacity) {
  size_t length = strlen(build_dir);
  if (strncmp(place, build_dir, length) == 0 && place[length] == '/') {
    snprintf(out, capacity, "%s", place + length + 1);
  } else {
    bool relative = place[0] != '/' && strcmp(directory, ".") != 0;
    snprintf(out, capacity, "%s%s%s", relative ? directory : "", relative ? "/" : "", place);
  }
}

static bool slip__message_line(const char *line, size_t length, const char *directory, const char *build_dir, slip_diagnostics_t *list) {
  char place[SLIP__PATH_CAPACITY], file[SLIP__PATH_CAPACITY + SLIP__PATH_CAPACITY];
  for (size_t i = 0; i < sizeof(slip__message_marks) / sizeof(slip__message_marks[0]); ++i) {
    const char *mark = memmem(line, length, slip__message_marks[i].mark, strlen(slip__message_marks[i].mark));
    if (!mark || (size_t)(mark - line) >= sizeof(place)) continue;
    memcpy(place, line, (size_t)(mark - line));
    place[mark - line] = '\0';
    slip__finding_t finding = {slip__message_marks[i].severity, NULL, 0, 0, "c-compiler", NULL};
    if (slip__message_place(place, &finding.line, &finding.column)) {
      slip__message_file(place, directory, build_dir, file, sizeof(file));
      finding.file = file;
    } else if (slip__message_marks[i].severity == SLIP_SEVERITY_NOTE) {
      return false;
    }
    const char *message = mark + strlen(slip__message_marks[i].mark);
    slip__diagnostics_add(list, &finding, "%.*s", (int)(line + length - message), message);
    return slip__message_marks[i].severity == SLIP_SEVERITY_ERROR;
  }
  return false;
}

void slip__messages_compiler(const char *output, const char *directory, const char *build_dir, bool failed, slip_diagnostics_t *list) {
  bool any = false;
  for (const char *line = output; *line;) {
    size_t length = strcspn(line, "\n");
    any = slip__message_line(line, length, directory, build_dir, list) || any;
    line += length + (line[length] == '\n');
  }
  if (!failed || any) return;
  slip__finding_t finding = {SLIP_SEVERITY_ERROR, NULL, 0, 0, "c-compiler", NULL};
  int length = (int)strcspn(output, "\n");
  slip__diagnostics_add(list, &finding, "the C compiler failed: %.*s", length, length ? output : "(no output)");
}

// The source that the linker calls |base|, a name without its folder; NULL if none or several are called so.
static const char *slip__message_source(const slip__link_names_t *names, const char *base) {
  const char *found = NULL;
  for (size_t i = 0; i < names->source_count; ++i) {
    const char *source = names->sources[i], *other = strrchr(source, '/') ? strrchr(source, '/') + 1 : source;
    if (strcmp(base, other) != 0) continue;
    if (found) return NULL;
    found = source;
  }
  return found;
}

// The place in "[/usr/bin/ld: ]file:(.text+0x5): " or, with debugging information, "[/usr/bin/ld: ]file:line: ", which ends at |length|.
// The file is a source or, where the linker knows none, an object: "<target>-<unit>.o", whose unit behind the last source is the generated
// one.
static void slip__message_link_place(const char *line, size_t length, const slip__link_names_t *names, char *file, size_t capacity,
                                     slip__finding_t *finding) {
  static const char linker[] = "ld: ";
  char place[SLIP__PATH_CAPACITY];
  const char *start = memmem(line, length, linker, sizeof(linker) - 1);
  start = start ? start + sizeof(linker) - 1 : line;
  while (length > 0 && (line[length - 1] == ' ' || line[length - 1] == ':')) --length;
  if (start >= line + length || (size_t)(line + length - start) >= sizeof(place)) return;
  memcpy(place, start, (size_t)(line + length - start));
  place[line + length - start] = '\0';
  char *section = strstr(place, ":(");
  if (section) *section = '\0';
  if (!section) (void)slip__message_place(place, &finding->line, &finding->column);
  const char *base = strrchr(place, '/') ? strrchr(place, '/') + 1 : place, *source = slip__message_source(names, base);
  unsigned target = 0, unit = 0;
  bool object = sscanf(base, "%u-%u.o", &target, &unit) == 2;
  if (object && unit < names->source_count) source = names->sources[unit];
  if (source) {
    slip__message_file(source, names->directory, "\n", file, capacity);
    finding->file = file;
  } else {
    finding->line = finding->column = 0;
    if (strcmp(base, "slip_glue.c") == 0 || (object && unit == names->source_count)) finding->file = names->manifest;
  }
}

static void slip__message_undefined(const char *line, const char *mark, const char *name, size_t length, const slip__link_names_t *names,
                                    slip_diagnostics_t *list) {
  static const char *const library[] = {"malloc", "calloc", "realloc", "free",   "printf", "fprintf",
                                        "puts",   "abort",  "exit",    "strlen", "strcmp", "pthread_"};
  static const char *const math[] = {"exp",  "log",   "pow",  "sin", "cos",  "tan",       "erf",  "floor",
                                     "ceil", "round", "rint", "fma", "sqrt", "nearbyint", "trunc"};
  const char *hint = "define it in one of \"sources\" (not static), or correct the \"symbol\" in the manifest";
  for (size_t i = 0; i < sizeof(library) / sizeof(library[0]); ++i) {
    if (length >= strlen(library[i]) && memcmp(name, library[i], strlen(library[i])) == 0) {
      hint = "a callable is a closed object without the C library: use the kernel's scratch memory, and slip_orch_fail() for errors";
    }
  }
  for (size_t i = 0; i < sizeof(math) / sizeof(math[0]); ++i) {
    if (length >= strlen(math[i]) && memcmp(name, math[i], strlen(math[i])) == 0) {
      hint = "a callable is a closed object without libm: put a polynomial of your own in one of \"sources\"";
    }
  }
  char file[SLIP__PATH_CAPACITY + SLIP__PATH_CAPACITY];
  slip__finding_t finding = {SLIP_SEVERITY_ERROR, NULL, 0, 0, "undefined-symbol", hint};
  slip__message_link_place(line, (size_t)(mark - line), names, file, sizeof(file), &finding);
  slip__diagnostics_add(list, &finding, "\"%.*s\" is not defined (linking for %s)", (int)length, name, names->target);
}

void slip__messages_linker(const char *output, const slip__link_names_t *names, slip_diagnostics_t *list) {
  static const char undefined[] = "undefined reference to ", multiple[] = "multiple definition of ";
  size_t before = slip__diagnostics_error_count(list);
  for (const char *line = output; *line;) {
    size_t length = strcspn(line, "\n");
    const char *mark = memmem(line, length, undefined, sizeof(undefined) - 1);
    const char *twice = memmem(line, length, multiple, sizeof(multiple) - 1);
    if (mark) {
      const char *name = mark + sizeof(undefined);  // behind the opening quote
      slip__message_undefined(line, mark, name, strcspn(name, "'\"\n"), names, list);
    } else if (twice) {
      const char *name = twice + sizeof(multiple);
      char file[SLIP__PATH_CAPACITY + SLIP__PATH_CAPACITY];
      slip__finding_t finding = {SLIP_SEVERITY_ERROR, NULL, 0, 0, "duplicate-symbol", "make all but one of them static"};
      slip__message_link_place(line, (size_t)(twice - line), names, file, sizeof(file), &finding);
      slip__diagnostics_add(list, &finding, "\"%.*s\" is defined more than once", (int)strcspn(name, "'\";\n"), name);
    }
    line += length + (line[length] == '\n');
  }
  if (slip__diagnostics_error_count(list) > before) return;
  slip__finding_t finding = {SLIP_SEVERITY_ERROR, NULL, 0, 0, "linker", NULL};
  int length = (int)strcspn(output, "\n");
  slip__diagnostics_add(list, &finding, "linking for %s failed: %.*s", names->target, length, length ? output : "(no output)");
}
