/* A robust mutex of our own, on a futex.
 *
 * Not pthread's robust mutex: its layout belongs to the libc, and a task's musl or older glibc shares this file with the
 * agent's; its list pointers lie in the shared memory, so a garbled file would crash whoever locks it; and its owner is
 * a thread id, which two PID namespaces both have. Here the word names slot and generation, any value is safe, and a
 * waiter that finds the owner dead takes the lock over by compare-and-swap of that very word. */
#define _GNU_SOURCE
#include "sharedlock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { WAITERS = 2, SPINS = 100, WAIT_NANOSECONDS = 2000000, MOST_SECONDS = 10 };

static void futex(_Atomic uint32_t *word, int what, uint32_t value, const struct timespec *limit) {
    syscall(SYS_futex, word, what, value, limit, NULL, 0); /* shared between processes: not the PRIVATE kind */
}

static time_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec;
}

static bool swap(_Atomic uint32_t *lock, uint32_t from, uint32_t to) {
    return atomic_compare_exchange_strong_explicit(lock, &from, to, memory_order_acq_rel, memory_order_relaxed);
}

bool sharedlock_take(_Atomic uint32_t *lock, uint32_t mine, sharedlock_alive *alive, bool *recovered) {
    static const struct timespec wait = {.tv_nsec = WAIT_NANOSECONDS};
    *recovered = false;
    for (int i = 0; i < SPINS; i++)
        if (swap(lock, 0, mine)) return true;
    for (time_t end = now() + MOST_SECONDS; now() <= end;) {
        uint32_t word = atomic_load_explicit(lock, memory_order_relaxed);
        if (word == 0) {
            if (swap(lock, 0, mine | WAITERS)) return true;
            continue;
        }
        if (!(word & WAITERS) && !swap(lock, word, word | WAITERS)) continue;
        word |= WAITERS;
        futex(lock, FUTEX_WAIT, word, &wait);
        if (atomic_load_explicit(lock, memory_order_relaxed) != word || alive(word)) continue;
        if (swap(lock, word, mine | WAITERS)) return *recovered = true;
    }
    return false;
}

void sharedlock_drop(_Atomic uint32_t *lock) {
    if (atomic_exchange_explicit(lock, 0, memory_order_acq_rel) & WAITERS) futex(lock, FUTEX_WAKE, 1, NULL);
}
