// SPDX-License-Identifier: Apache-2.0
#include "os/trap.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define SLIP__TRAP_STACK 65536u

typedef struct slip__trap_signal_t {
  int number;
  const char *name;
} slip__trap_signal_t;
static const slip__trap_signal_t slip__trap_signals[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"}, {SIGFPE, "SIGFPE"}, {SIGILL, "SIGILL"}};
#define SLIP__TRAP_SIGNALS (sizeof(slip__trap_signals) / sizeof(slip__trap_signals[0]))

// Written before the handlers are installed, read by them.
static int slip__trap_descriptor;
static slip__trap_describe_t slip__trap_describe;
// The first signal takes it (relaxed: nothing travels with it).
static _Atomic uint32_t slip__trap_taken;

static const void *slip__trap_instruction(const ucontext_t *context) {
#if defined(__x86_64__)
  return (const void *)(uintptr_t)context->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
  return (const void *)(uintptr_t)context->uc_mcontext.pc;
#else
  (void)context;
  return NULL;
#endif
}

static void slip__trap_handle(int number, siginfo_t *info, void *context) {
  char text[2048];
  slip__trap_t trap = {"a signal", info->si_addr, slip__trap_instruction(context)};
  for (size_t i = 0; i < SLIP__TRAP_SIGNALS; ++i) {
    if (slip__trap_signals[i].number == number) trap.signal = slip__trap_signals[i].name;
  }
  // Another thread is telling: this one waits for the end that comes with it.
  while (atomic_exchange_explicit(&slip__trap_taken, 1, memory_order_relaxed)) (void)pause();
  size_t size = slip__trap_describe(&trap, text, sizeof(text));
  for (size_t done = 0; done < size;) {
    ssize_t part = write(slip__trap_descriptor, text + done, size - done);
    if (part <= 0) break;
    done += (size_t)part;
  }
  struct sigaction standard = {.sa_handler = SIG_DFL};
  (void)sigaction(number, &standard, NULL);
  (void)raise(number);  // blocked until this returns
}

slip_status_t slip__trap_install(int descriptor, slip__trap_describe_t describe) {
  if (fcntl(descriptor, F_GETFD) < 0) {
    return SLIP_STATUS(SLIP_CODE_INVALID_ARGUMENT, "descriptor %d is not open, expected one that can be written", descriptor);
  }
  struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
  slip__trap_descriptor = descriptor;
  slip__trap_describe = describe;
  action.sa_sigaction = slip__trap_handle;
  (void)sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < SLIP__TRAP_SIGNALS; ++i) (void)sigaction(slip__trap_signals[i].number, &action, NULL);
  slip__trap_thread();
  return slip_ok_status();
}

void slip__trap_thread(void) {
  static _Thread_local bool done;
  if (done) return;
  done = true;
  void *memory = mmap(NULL, SLIP__TRAP_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;  // an overflow of the stack then ends the process without a word
  stack_t stack = {.ss_sp = memory, .ss_size = SLIP__TRAP_STACK};
  (void)sigaltstack(&stack, NULL);
}
