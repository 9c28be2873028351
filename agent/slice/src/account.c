#define _GNU_SOURCE
#include "account.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format.h"
#include "lifeline.h"
#include "sharedlock.h"

#ifndef SLICE_DIR
#define SLICE_DIR "/run/tessera/slice"
#endif

static struct {
    pthread_mutex_t mutex; /* everything below, and own[] */
    struct slice_limits *limits;
    struct slice_usage *usage;
    int slot; /* -1: none yet */
    uint32_t generation;
    uint64_t own[SLICE_CARDS];
    uint64_t cards;
    dev_t device; /* the usage file, to know it again */
    ino_t inode;
    char path[PATH_MAX];
} account = {.mutex = PTHREAD_MUTEX_INITIALIZER, .slot = -1};

static _Atomic bool ready, said;
static _Atomic uint32_t *fork_mark; /* a page that the kernel empties in every forked child */

/* -- what goes wrong ---------------------------------------------------------------------------------------------- */

static void say(const char *directory, const char *what) {
    char line[PATH_MAX + 400];
    if (atomic_exchange(&said, true)) return;
    int shown = (int)strlen(directory); /* without what makes SLICE_DIR long, see the Makefile */
    while (shown > 2 && strncmp(directory + shown - 2, "/.", 2) == 0) shown -= 2;
    int length = snprintf(line, sizeof line,
                          "Tessera: this task's slice of the GPU cannot be used: %s (%.*s). Stop the task and start it "
                          "again; if that does not help, ask your administrator to run: slicectl show %.*s\n",
                          what, shown, directory, shown, directory);
    if (length > 0 && write(STDERR_FILENO, line, (size_t)length) < 0) return; /* nobody listens: nothing to be done */
}

static void say_broken(const char *what) {
    char directory[PATH_MAX];
    snprintf(directory, sizeof directory, "%.*s", (int)(strlen(account.path) - strlen("/usage")), account.path);
    say(directory, what);
}

/* -- forks -------------------------------------------------------------------------------------------------------- */

static void forget_parent(void) { /* a child begins with nothing: CUDA does not outlive a fork */
    account.slot = -1;
    account.cards = 0;
    memset(account.own, 0, sizeof account.own);
    if (fork_mark) atomic_store(fork_mark, 1);
}

static void before_fork(void) { pthread_mutex_lock(&account.mutex); }
static void after_fork_parent(void) { pthread_mutex_unlock(&account.mutex); }
static void after_fork_child(void) {
    forget_parent();
    pthread_mutex_unlock(&account.mutex);
}

static void watch_forks(void) {
    static bool watching;
    if (watching) return;
    watching = true;
    pthread_atfork(before_fork, after_fork_parent, after_fork_child);
    void *page = mmap(NULL, SLICE_HEADER_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return;
    if (madvise(page, SLICE_HEADER_SIZE, MADV_WIPEONFORK) != 0) { /* before Linux 4.14: pthread_atfork alone */
        munmap(page, SLICE_HEADER_SIZE);
        return;
    }
    fork_mark = page;
    atomic_store(fork_mark, 1);
}

static void lock_account(void) {
    if (fork_mark && atomic_load_explicit(fork_mark, memory_order_relaxed) == 0) { /* forked past pthread_atfork */
        pthread_mutex_t fresh = PTHREAD_MUTEX_INITIALIZER;
        memcpy(&account.mutex, &fresh, sizeof fresh);
        forget_parent();
    }
    pthread_mutex_lock(&account.mutex);
}

static void unlock_account(void) { pthread_mutex_unlock(&account.mutex); }

/* -- opening ------------------------------------------------------------------------------------------------------ */

static void *map_file(const char *path, size_t size, bool write_too, struct stat *status, const char **why) {
    int descriptor = open(path, (write_too ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (descriptor < 0) {
        *why = errno == ENOENT ? "a file is missing" : "a file may not be opened";
        return NULL;
    }
    void *map = NULL;
    if (fstat(descriptor, status) != 0 || !S_ISREG(status->st_mode) || status->st_size != (off_t)size)
        *why = "a file has the wrong size";
    else if ((map = mmap(NULL, size, PROT_READ | (write_too ? PROT_WRITE : 0), MAP_SHARED, descriptor, 0)) == MAP_FAILED)
        map = NULL, *why = "a file cannot be mapped";
    close(descriptor);
    return map;
}

static const char *fault(const struct slice_limits *limits, const struct slice_usage *usage) {
    if (memcmp(limits->magic, SLICE_LIMITS_MAGIC, 8) != 0 || memcmp(usage->magic, SLICE_USAGE_MAGIC, 8) != 0)
        return "a file is not one of ours";
    if (limits->version != SLICE_VERSION || usage->version != SLICE_VERSION) return "the files are of another version";
    if (limits->cards < 1 || limits->cards > SLICE_CARDS || usage->slots != SLICE_SLOTS ||
        limits->check != slice_check(limits))
        return "a file is garbled";
    if (limits->id != usage->id) return "the two files are not of one slice";
    return NULL;
}

bool slice_open_at(const char *directory, bool write_limits, const char **why) {
    char path[PATH_MAX];
    struct stat status;
    lock_account();
    struct slice_limits *limits = NULL;
    struct slice_usage *usage = NULL;
    *why = "the path is too long";
    if (snprintf(path, sizeof path, "%s/limits", directory) < (int)sizeof path)
        limits = map_file(path, SLICE_LIMITS_SIZE, write_limits, &status, why);
    if (limits && snprintf(path, sizeof path, "%s/usage", directory) < (int)sizeof path)
        usage = map_file(path, SLICE_USAGE_SIZE, true, &status, why);
    if (usage) *why = fault(limits, usage);
    if (usage && !*why) {
        watch_forks();
        account.limits = limits, account.usage = usage;
        account.device = status.st_dev, account.inode = status.st_ino;
        memcpy(account.path, path, sizeof path);
        atomic_store(&ready, true);
    } else {
        if (limits) munmap(limits, SLICE_LIMITS_SIZE);
        if (usage) munmap(usage, SLICE_USAGE_SIZE);
    }
    unlock_account();
    return !*why;
}

/* The fixed place, and where there is none (a task without a mount namespace of its own) beside this library. No
 * environment variable: programs empty theirs, and one set by mistake must not lift a limit. */
static const char *find_directory(char room[PATH_MAX]) {
    Dl_info info;
    if (access(SLICE_DIR, F_OK) == 0 || dladdr((const void *)SLICE_LIMITS_MAGIC, &info) == 0 || !info.dli_fname)
        return SLICE_DIR;
    const char *slash = strrchr(info.dli_fname, '/');
    size_t length = slash ? (size_t)(slash - info.dli_fname) : 0;
    if (length == 0 || length >= PATH_MAX - 16) return SLICE_DIR;
    memcpy(room, info.dli_fname, length);
    strcpy(room + length, "/limits");
    if (access(room, F_OK) != 0) return SLICE_DIR;
    room[length] = 0;
    return room;
}

bool slice_open(void) {
    if (atomic_load_explicit(&ready, memory_order_acquire)) return true;
    char room[PATH_MAX];
    const char *why, *directory = find_directory(room);
    if (slice_open_at(directory, false, &why)) return true;
    say(directory, why);
    return false;
}

static int open_usage(void) { /* a descriptor of its own, for a moment; -1 when the file is no longer the same */
    struct stat status;
    int descriptor = open(account.path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (descriptor < 0) return -1;
    if (fstat(descriptor, &status) == 0 && status.st_dev == account.device && status.st_ino == account.inode)
        return descriptor;
    close(descriptor);
    return -1;
}

/* -- slots -------------------------------------------------------------------------------------------------------- */

static int slots_in_use(void) {
    uint32_t high = atomic_load_explicit(&account.usage->high, memory_order_acquire);
    return high < SLICE_SLOTS ? (int)high : SLICE_SLOTS;
}

static void empty_slot(struct slice_slot *slot) {
    atomic_store(&slot->pid, 0);
    atomic_store(&slot->cards, 0);
    for (int i = 0; i < SLICE_CARDS; i++) {
        atomic_store(&slot->used[i], 0);
        atomic_store(&slot->peak[i], 0);
        atomic_store(&slot->refused[i], 0);
    }
}

static bool slot_written(struct slice_slot *slot) {
    uint64_t any = atomic_load(&slot->pid) | atomic_load(&slot->cards);
    for (int i = 0; i < SLICE_CARDS; i++) any |= atomic_load(&slot->used[i]);
    return any != 0;
}

static bool reap(void) {
    bool found = false;
    int descriptor = open_usage();
    if (descriptor < 0) return false; /* we cannot tell: whoever is written there counts as living */
    for (int i = 0, end = slots_in_use(); i < end; i++) {
        struct slice_slot *slot = &account.usage->slot[i];
        if (i == account.slot || !slot_written(slot) || !lifeline_try(descriptor, i)) continue;
        empty_slot(slot);
        atomic_fetch_add(&account.usage->reaped, 1);
        found = true;
    }
    close(descriptor);
    return found;
}

static bool claim_slot(void) {
    if (account.slot >= 0) return true;
    int descriptor = open_usage();
    int slot = descriptor < 0 ? -1 : lifeline_take(descriptor, SLICE_SLOTS);
    if (descriptor >= 0) close(descriptor);
    if (slot < 0) {
        say_broken(descriptor < 0 ? "its usage file went away" : "too many processes use it");
        return false;
    }
    struct slice_slot *mine = &account.usage->slot[slot];
    empty_slot(mine);
    account.generation = (atomic_fetch_add(&mine->generation, 1) + 1) & 0xfffff;
    atomic_store(&mine->pid, (uint32_t)getpid());
    uint32_t high = atomic_load(&account.usage->high);
    while (high < (uint32_t)slot + 1 &&
           !atomic_compare_exchange_weak(&account.usage->high, &high, (uint32_t)slot + 1)) {}
    account.slot = slot;
    reap();
    return true;
}

static uint32_t my_word(void) { return account.generation << 12 | (uint32_t)account.slot << 2 | 1; }

static bool lock_owner_alive(uint32_t word) {
    int slot = (int)(word >> 2 & (SLICE_SLOTS - 1));
    uint32_t generation = word >> 12;
    if (!(word & 1)) return false; /* garbled: nobody writes such a word */
    if (slot == account.slot) return generation == account.generation;
    if ((atomic_load(&account.usage->slot[slot].generation) & 0xfffff) != generation) return false;
    int descriptor = open_usage();
    if (descriptor < 0) return true;
    bool held = lifeline_held(descriptor, slot);
    close(descriptor);
    return held;
}

static bool lock_slice(void) {
    bool recovered;
    if (!claim_slot()) return false;
    if (!sharedlock_take(&account.usage->lock, my_word(), lock_owner_alive, &recovered)) {
        say_broken("another process of the task holds its lock and does not let go");
        return false;
    }
    if (recovered) atomic_fetch_add(&account.usage->recovered, 1);
    return true;
}

static void unlock_slice(void) { sharedlock_drop(&account.usage->lock); }

/* -- reading ------------------------------------------------------------------------------------------------------ */

int slice_cards(void) { return (int)account.limits->cards; }
const uint8_t *slice_uuid(int card) { return account.limits->card[card].uuid; }

int slice_card_of(const uint8_t uuid[16]) {
    for (int i = 0; i < slice_cards() && i < SLICE_CARDS; i++)
        if (memcmp(account.limits->card[i].uuid, uuid, 16) == 0) return i;
    return -1;
}

static bool read_limit(int card, uint64_t *bytes) {
    if (card < 0) return *bytes = 0, true;
    const struct slice_card *entry = &account.limits->card[card];
    uint64_t word = atomic_load_explicit(&entry->word, memory_order_relaxed);
    *bytes = word >> 16;
    return slice_pack(*bytes, entry->uuid, account.limits->id) == word;
}

bool slice_limit_sound(int card) {
    uint64_t bytes;
    return read_limit(card, &bytes);
}

uint64_t slice_limit(int card) {
    uint64_t bytes;
    if (read_limit(card, &bytes)) return bytes;
    say_broken("its limit is garbled");
    return 0;
}

uint64_t slice_context_cost(int card) { return card < 0 ? 0 : account.limits->card[card].context; }
uint64_t slice_refusals(int card) { return card < 0 ? 0 : atomic_load(&account.usage->refused[card]); }
uint64_t slice_recovered(void) { return atomic_load(&account.usage->recovered); }

static uint64_t add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

static uint64_t used_by_others(int card) {
    uint64_t sum = 0;
    for (int i = 0, end = slots_in_use(); i < end; i++)
        if (i != account.slot) sum = add(sum, atomic_load_explicit(&account.usage->slot[i].used[card], memory_order_acquire));
    return sum;
}

uint64_t slice_used(int card) {
    if (card < 0) return 0;
    lock_account();
    uint64_t others = used_by_others(card);
    if (others && reap()) others = used_by_others(card);
    uint64_t used = add(account.own[card], others);
    unlock_account();
    return used;
}

int slice_rows(struct slice_row *rows, int room) {
    int count = 0;
    lock_account();
    reap();
    for (int i = 0, end = slots_in_use(); i < end; i++) {
        struct slice_slot *slot = &account.usage->slot[i];
        if (!slot_written(slot)) continue;
        if (count < room) {
            rows[count].pid = atomic_load(&slot->pid);
            rows[count].cards = atomic_load(&slot->cards);
            for (int card = 0; card < SLICE_CARDS; card++) {
                rows[count].used[card] = atomic_load(&slot->used[card]);
                rows[count].peak[card] = atomic_load(&slot->peak[card]);
                rows[count].refused[card] = atomic_load(&slot->refused[card]);
            }
        }
        count++;
    }
    unlock_account();
    return count;
}

/* -- charging ----------------------------------------------------------------------------------------------------- */

static struct slice_slot *mine(void) { return &account.usage->slot[account.slot]; }

static void set_own(int card, uint64_t bytes) { /* a store, not an addition: garbage in the slot does not stay */
    account.own[card] = bytes;
    atomic_store_explicit(&mine()->used[card], bytes, memory_order_release);
    if (bytes > atomic_load_explicit(&mine()->peak[card], memory_order_relaxed)) atomic_store(&mine()->peak[card], bytes);
}

#ifdef SLICE_LINGER /* only in tests: makes it likely that a kill comes while the lock is held */
static void linger(void) { for (volatile int i = 0; i < SLICE_LINGER; i++) {} }
#else
static void linger(void) {}
#endif

bool slice_charge(int card, uint64_t bytes) {
    if (bytes == 0) return true;
    if (card < 0) return false;
    lock_account();
    bool fits = false;
    if (lock_slice()) {
        uint64_t limit = slice_limit(card), used = add(account.own[card], used_by_others(card));
        fits = used <= limit && bytes <= limit - used;
        linger();
        if (fits) set_own(card, account.own[card] + bytes);
        linger();
        unlock_slice();
    }
    unlock_account();
    return fits;
}

void slice_force(int card, uint64_t bytes) {
    if (card < 0 || bytes == 0) return;
    lock_account();
    if (claim_slot()) set_own(card, add(account.own[card], bytes));
    unlock_account();
}

void slice_release(int card, uint64_t bytes) { /* no lock: a sum that runs meanwhile is too high, never too low */
    if (card < 0 || bytes == 0) return;
    lock_account();
    if (account.slot >= 0) set_own(card, account.own[card] > bytes ? account.own[card] - bytes : 0);
    unlock_account();
}

void slice_refused(int card) {
    if (card < 0) return;
    lock_account();
    if (account.slot >= 0) atomic_fetch_add(&mine()->refused[card], 1);
    atomic_fetch_add(&account.usage->refused[card], 1);
    unlock_account();
}

void slice_unnamed(void) {
    lock_account();
    if (account.slot >= 0) atomic_store(&mine()->pid, 0);
    unlock_account();
}

void slice_context(int card, bool there) {
    if (card < 0) return;
    lock_account();
    if (claim_slot()) {
        if (there) account.cards |= UINT64_C(1) << card;
        else account.cards &= ~(UINT64_C(1) << card);
        atomic_store(&mine()->cards, account.cards);
    }
    unlock_account();
}

bool slice_reap(void) {
    lock_account();
    bool found = reap();
    unlock_account();
    return found;
}

bool slice_resize(int card, uint64_t bytes, uint64_t *used) {
    bool done = false;
    *used = 0;
    lock_account();
    if (bytes <= SLICE_MOST && lock_slice()) {
        reap();
        *used = used_by_others(card);
        struct slice_card *entry = &account.limits->card[card];
        if ((done = *used <= bytes)) atomic_store(&entry->word, slice_pack(bytes, entry->uuid, account.limits->id));
        unlock_slice();
    }
    unlock_account();
    return done;
}
