// SPDX-License-Identifier: Apache-2.0
#include "compiler/toolchain/object_check.h"

#include <elf.h>
#include <string.h>

#include "slipstream/kernel/object.h"

// |count| records of |size| bytes at |offset|, or NULL if they do not lie in |bytes|.
static const void *slip__elf_at(slip_const_bytes_t bytes, uint64_t offset, uint64_t count, uint64_t size) {
  uint64_t length = 0, end = 0;
  if (__builtin_mul_overflow(count, size, &length) || __builtin_add_overflow(offset, length, &end) || end > bytes.size || offset % 8 != 0)
    return NULL;
  return bytes.data + offset;
}

static slip_status_t slip__elf_header(slip_const_bytes_t bytes, uint16_t machine, const Elf64_Ehdr **out) {
  const Elf64_Ehdr *header = slip__elf_at(bytes, 0, 1, sizeof(*header));
  if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return SLIP_STATUS(SLIP_CODE_CORRUPT, "the linker's output is no ELF file");
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB || header->e_type != ET_DYN) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "the linker's output is no 64-bit little-endian shared object");
  }
  if (header->e_machine != machine) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the object is for machine %u, the target needs %u", header->e_machine, machine);
  }
  *out = header;
  return slip_ok_status();
}

static slip_status_t slip__elf_dynamic(const Elf64_Dyn *dynamic, uint64_t count) {
  for (uint64_t i = 0; i < count && dynamic[i].d_tag != DT_NULL; ++i) {
    switch (dynamic[i].d_tag) {
      case DT_NEEDED:
        return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the object needs another library; a callable is closed");
      case DT_INIT:
      case DT_FINI:
      case DT_INIT_ARRAY:
      case DT_FINI_ARRAY:
        return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the object has a constructor or destructor; loading a callable must run nothing");
      case DT_TEXTREL:
        return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the object has text relocations");
      default:
        break;
    }
  }
  return slip_ok_status();
}

static slip_status_t slip__elf_symbols(slip_const_bytes_t bytes, const Elf64_Shdr *symbols, const Elf64_Shdr *strings, bool *out_found) {
  uint64_t count = symbols->sh_size / sizeof(Elf64_Sym);
  const Elf64_Sym *table = slip__elf_at(bytes, symbols->sh_offset, count, sizeof(*table));
  if (!table || strings->sh_size == 0 || strings->sh_offset > bytes.size || strings->sh_size > bytes.size - strings->sh_offset) {
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "the symbol table lies outside the object");
  }
  const char *text = (const char *)bytes.data + strings->sh_offset;
  if (text[strings->sh_size - 1] != '\0') return SLIP_STATUS(SLIP_CODE_CORRUPT, "the string table has no end");
  for (uint64_t i = 1; i < count; ++i) {
    if (table[i].st_name >= strings->sh_size) return SLIP_STATUS(SLIP_CODE_CORRUPT, "a symbol's name lies outside the object");
    const char *name = text + table[i].st_name;
    if (ELF64_ST_BIND(table[i].st_info) == STB_LOCAL) continue;
    if (table[i].st_shndx == SHN_UNDEF) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "\"%s\" is undefined; a callable is closed", name);
    if (strcmp(name, SLIP_OBJECT_SYMBOL) != 0)
      return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "\"%s\" is exported beside %s", name, SLIP_OBJECT_SYMBOL);
    if (table[i].st_size >= sizeof(slip_object_t)) *out_found = true;
  }
  return slip_ok_status();
}

slip_status_t slip__object_check(slip_const_bytes_t bytes, uint16_t machine) {
  const Elf64_Ehdr *header = NULL;
  SLIP_RETURN_IF_ERROR(slip__elf_header(bytes, machine, &header));
  const Elf64_Shdr *sections = slip__elf_at(bytes, header->e_shoff, header->e_shnum, sizeof(*sections));
  if (!sections || header->e_shentsize != sizeof(*sections))
    return SLIP_STATUS(SLIP_CODE_CORRUPT, "the section table lies outside the object");
  bool found = false;
  for (uint32_t i = 0; i < header->e_shnum; ++i) {
    if (sections[i].sh_type == SHT_DYNAMIC) {
      uint64_t count = sections[i].sh_size / sizeof(Elf64_Dyn);
      const Elf64_Dyn *dynamic = slip__elf_at(bytes, sections[i].sh_offset, count, sizeof(*dynamic));
      if (!dynamic) return SLIP_STATUS(SLIP_CODE_CORRUPT, "the dynamic section lies outside the object");
      SLIP_RETURN_IF_ERROR(slip__elf_dynamic(dynamic, count));
    }
    if (sections[i].sh_type != SHT_DYNSYM) continue;
    if (sections[i].sh_link >= header->e_shnum) return SLIP_STATUS(SLIP_CODE_CORRUPT, "the symbol table has no strings");
    SLIP_RETURN_IF_ERROR(slip__elf_symbols(bytes, &sections[i], &sections[sections[i].sh_link], &found));
  }
  if (!found) return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "the object does not export %s", SLIP_OBJECT_SYMBOL);
  return slip_ok_status();
}
