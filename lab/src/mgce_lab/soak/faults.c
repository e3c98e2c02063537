/* Counts the calls by which a process changes files below a folder, and at one of them kills it or reports a full disk.
 *
 * Preloaded into Python (LD_PRELOAD). Nothing is done before `fault_arm` has been called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char folder[4096];
static long count, at;
static int full, armed;

/* Fail at call `where` below `path`: by ENOSPC if `is_full`, else by SIGKILL; 0 only counts. */
void fault_arm(const char *path, long where, int is_full) {
    snprintf(folder, sizeof folder, "%s", path);
    count = 0, at = where, full = is_full, armed = 1;
}

long fault_count(void) { return count; }

static int below(const char *path) {
    char absolute[8192];
    if (path == NULL) return 0;
    if (path[0] == '/') snprintf(absolute, sizeof absolute, "%s", path);
    else {
        char here[4096];
        if (getcwd(here, sizeof here) == NULL) return 0;
        snprintf(absolute, sizeof absolute, "%s/%s", here, path);
    }
    return strncmp(absolute, folder, strlen(folder)) == 0;
}

static int fd_below(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return path[0] == '/' && below(path); /* else a pipe or a socket */
}

/* Count a call; 1 if it is the one that fails. From the first full write on, the disk stays full. */
static int due(void) {
    if (!armed) return 0;
    count++;
    return at > 0 && (full ? count >= at : count == at);
}

#define NEXT(name) static __typeof__(name) *next; if (next == NULL) next = dlsym(RTLD_NEXT, #name)
#define STOP kill(getpid(), SIGKILL)

ssize_t write(int fd, const void *content, size_t size) {
    NEXT(write);
    if (armed && fd_below(fd) && due()) {
        if (full) { errno = ENOSPC; return -1; }
        next(fd, content, size / 2); /* a torn write */
        STOP;
    }
    return next(fd, content, size);
}

int fsync(int fd) {
    NEXT(fsync);
    if (armed && fd_below(fd) && due()) {
        if (full) { errno = ENOSPC; return -1; }
        STOP;
    }
    return next(fd);
}

static int changes(const char *path, int can_be_full) {
    if (!armed || !below(path) || (full && !can_be_full) || !due()) return 0;
    if (!full) STOP;
    errno = ENOSPC;
    return 1;
}

int rename(const char *from, const char *to) { NEXT(rename); return changes(to, 0) ? -1 : next(from, to); }
int mkdir(const char *path, mode_t mode) { NEXT(mkdir); return changes(path, 1) ? -1 : next(path, mode); }
int unlink(const char *path) { NEXT(unlink); return changes(path, 0) ? -1 : next(path); }
int rmdir(const char *path) { NEXT(rmdir); return changes(path, 0) ? -1 : next(path); }

int unlinkat(int fd, const char *path, int flags) {
    NEXT(unlinkat);
    if (armed && !full && (path[0] == '/' ? below(path) : fd_below(fd)) && due()) STOP;
    return next(fd, path, flags);
}

#define OPEN(name)                                                          \
    int name(const char *path, int flags, ...) {                            \
        NEXT(name);                                                         \
        va_list list;                                                       \
        va_start(list, flags);                                              \
        int mode = flags & O_CREAT ? va_arg(list, int) : 0;                 \
        va_end(list);                                                       \
        if (flags & O_CREAT && changes(path, 1)) return -1;                 \
        return next(path, flags, mode);                                     \
    }
OPEN(open)
OPEN(open64)
