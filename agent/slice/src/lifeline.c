/* Who lives? An open-file-description lock per slot, held through a mapping instead of a descriptor.
 *
 * - The kernel drops such a lock with the last reference to the open file: when the process is gone, however it went.
 * - A mapping is a reference. So the descriptor is closed at once: a program that closes "all" descriptors (daemons do)
 *   cannot drop the lock by mistake, and no descriptor of ours is passed on by exec.
 * - MADV_DONTFORK keeps the mapping out of forked children, which would otherwise keep a dead parent alive.
 * - Unlike process ids this works across PID namespaces. */
#define _GNU_SOURCE
#include "lifeline.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format.h"

static struct flock one_byte(int slot) {
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)SLICE_LIFE + slot, .l_len = 1};
}

bool lifeline_try(int descriptor, int slot) {
    struct flock lock = one_byte(slot);
    return fcntl(descriptor, F_OFD_SETLK, &lock) == 0;
}

bool lifeline_held(int descriptor, int slot) {
    struct flock lock = one_byte(slot);
    return fcntl(descriptor, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

int lifeline_take(int descriptor, int slots) {
    int slot = 0;
    while (slot < slots && !lifeline_try(descriptor, slot)) slot++;
    if (slot == slots) return -1;
    void *page = mmap(NULL, SLICE_HEADER_SIZE, PROT_READ, MAP_SHARED, descriptor, 0);
    if (page == MAP_FAILED) return -1;
    if (madvise(page, SLICE_HEADER_SIZE, MADV_DONTFORK) != 0) {
        munmap(page, SLICE_HEADER_SIZE);
        return -1;
    }
    return slot; /* the mapping is never undone: it ends with the process or with exec */
}
