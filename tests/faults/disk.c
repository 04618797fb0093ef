/* Preloaded (LD_PRELOAD): a disk that fails on order. Every write, flush, making and renaming of a file below a folder is
 * counted and noted; from the one with a number that is ordered, so many of them fail, or one writes only half of what it
 * was given. Optionally reading fails too, of files whose path holds a word.
 *
 * Orders and notes are in a small file, whose path is in BAD_DISK_ORDERS, shared by all processes that are started so. Its
 * layout is known to disk.py too.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define NOTES (1 << 20)

struct orders {
    int64_t watched; /* whether anything counts */
    int64_t at;      /* the number of the first operation that fails; 0: none does */
    int64_t many;    /* how many fail from there */
    int64_t error;   /* with which errno */
    int64_t half;    /* whether the first of them writes a half, and the rest fails */
    int64_t count;   /* operations so far */
    int64_t struck;  /* of these, failed or halved */
    int64_t noted;   /* bytes of notes */
    char folder[512];
    char unreadable[64]; /* reading fails where the path holds this word; empty: nowhere */
    char notes[NOTES];
};

static struct orders *orders;

enum fate { WELL, FAILS, HALF };

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("BAD_DISK_ORDERS");
    int file = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *page = MAP_FAILED;

    if (file >= 0)
        page = mmap(NULL, sizeof *orders, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        fputs("the orders of the disk cannot be read\n", stderr);
        _exit(127);
    }
    close(file);
    orders = page;
}

static int meant(const char *path)
{
    return path && !strncmp(path, orders->folder, strlen(orders->folder));
}

static int ordered(void)
{
    return orders && orders->watched;
}

/* Where a path that may be relative to a folder leads to, as far as it matters here. */
static const char *absolute(int folder, const char *path, char *buffer, size_t size)
{
    char link[64];
    ssize_t length;

    if (!path || path[0] == '/')
        return path;
    if (folder == AT_FDCWD)
        length = getcwd(buffer, size - 1) ? (ssize_t)strlen(buffer) : -1;
    else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        length = readlink(link, buffer, size - 1);
    }
    if (length < 0 || length + strlen(path) + 2 > size)
        return NULL;
    buffer[length] = 0;
    if (path[0])
        strcat(strcat(buffer, "/"), path);
    return buffer;
}

static enum fate fate_of(const char *what, const char *path)
{
    char note[640];
    int64_t number, place;
    int length;

    if (!ordered() || !meant(path))
        return WELL;
    number = __atomic_add_fetch(&orders->count, 1, __ATOMIC_SEQ_CST);
    length = snprintf(note, sizeof note, "%s %s\n", what, path + strlen(orders->folder));
    place = __atomic_fetch_add(&orders->noted, length, __ATOMIC_SEQ_CST);
    if (place + length < NOTES)
        memcpy(orders->notes + place, note, length);
    if (!orders->at || number < orders->at || number - orders->at >= orders->many)
        return WELL;
    __atomic_add_fetch(&orders->struck, 1, __ATOMIC_SEQ_CST);
    if (orders->half && number == orders->at)
        return HALF;
    errno = (int)orders->error;
    return FAILS;
}

static enum fate fate_of_file(const char *what, int file)
{
    char path[4096];
    int error = errno;
    const char *found = ordered() ? absolute(file, "", path, sizeof path) : NULL;
    enum fate fate;

    errno = error;
    fate = fate_of(what, found);
    if (fate != FAILS)
        errno = error;
    return fate;
}

static int unreadable(int file)
{
    char path[4096];
    int error = errno;
    const char *found;

    if (!ordered() || !orders->unreadable[0])
        return 0;
    found = absolute(file, "", path, sizeof path);
    errno = error;
    if (!found || !meant(found) || !strstr(found, orders->unreadable))
        return 0;
    errno = (int)orders->error;
    return 1;
}

#define SYSTEM(result, name, ...) \
    static result (*system_##name)(__VA_ARGS__); \
    if (!system_##name) \
        system_##name = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, #name)

#define MAKES(flags) ((flags) & O_CREAT || (flags) & O_TRUNC || ((flags) & O_TMPFILE) == O_TMPFILE)

#define OPEN(name) \
    int name(const char *path, int flags, ...) \
    { \
        char buffer[4096]; \
        mode_t mode = 0; \
        SYSTEM(int, name, const char *, int, ...); \
        if (MAKES(flags)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
            if (fate_of("open", absolute(AT_FDCWD, path, buffer, sizeof buffer)) == FAILS) \
                return -1; \
        } \
        return system_##name(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) \
    { \
        char buffer[4096]; \
        mode_t mode = 0; \
        SYSTEM(int, name, int, const char *, int, ...); \
        if (MAKES(flags)) { \
            va_list rest; \
            va_start(rest, flags); \
            mode = va_arg(rest, mode_t); \
            va_end(rest); \
            if (fate_of("open", absolute(folder, path, buffer, sizeof buffer)) == FAILS) \
                return -1; \
        } \
        return system_##name(folder, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

ssize_t write(int file, const void *data, size_t size)
{
    SYSTEM(ssize_t, write, int, const void *, size_t);
    switch (fate_of_file("write", file)) {
    case FAILS: return -1;
    case HALF: return system_write(file, data, size / 2);
    default: return system_write(file, data, size);
    }
}

#define PWRITE(name, offset) \
    ssize_t name(int file, const void *data, size_t size, offset at) \
    { \
        SYSTEM(ssize_t, name, int, const void *, size_t, offset); \
        switch (fate_of_file("write", file)) { \
        case FAILS: return -1; \
        case HALF: return system_##name(file, data, size / 2, at); \
        default: return system_##name(file, data, size, at); \
        } \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

ssize_t writev(int file, const struct iovec *parts, int count)
{
    SYSTEM(ssize_t, writev, int, const struct iovec *, int);
    switch (fate_of_file("write", file)) {
    case FAILS: return -1;
    case HALF: return system_writev(file, parts, count > 1 ? count / 2 : count);
    default: return system_writev(file, parts, count);
    }
}

ssize_t sendfile64(int to, int from, off64_t *at, size_t size)
{
    SYSTEM(ssize_t, sendfile64, int, int, off64_t *, size_t);
    switch (fate_of_file("write", to)) {
    case FAILS: return -1;
    case HALF: return system_sendfile64(to, from, at, size / 2);
    default: return system_sendfile64(to, from, at, size);
    }
}

ssize_t copy_file_range(int from, off64_t *read_at, int to, off64_t *write_at, size_t size, unsigned int flags)
{
    SYSTEM(ssize_t, copy_file_range, int, off64_t *, int, off64_t *, size_t, unsigned int);
    switch (fate_of_file("write", to)) {
    case FAILS: return -1;
    case HALF: return system_copy_file_range(from, read_at, to, write_at, size / 2, flags);
    default: return system_copy_file_range(from, read_at, to, write_at, size, flags);
    }
}

#define ON_FILE(name, what) \
    int name(int file) \
    { \
        SYSTEM(int, name, int); \
        return fate_of_file(what, file) == FAILS ? -1 : system_##name(file); \
    }
ON_FILE(fsync, "flush")
ON_FILE(fdatasync, "flush")

#define CUT(name, offset) \
    int name(int file, offset size) \
    { \
        SYSTEM(int, name, int, offset); \
        return fate_of_file("cut", file) == FAILS ? -1 : system_##name(file, size); \
    }
CUT(ftruncate, off_t)
CUT(ftruncate64, off64_t)

#define RESERVE(name, offset) \
    int name(int file, offset at, offset size) \
    { \
        SYSTEM(int, name, int, offset, offset); \
        return fate_of_file("write", file) == FAILS ? (int)orders->error : system_##name(file, at, size); \
    }
RESERVE(posix_fallocate, off_t)
RESERVE(posix_fallocate64, off64_t)

#define TWO_NAMES(name, what) \
    int name(const char *from, const char *to) \
    { \
        char buffer[4096]; \
        SYSTEM(int, name, const char *, const char *); \
        return fate_of(what, absolute(AT_FDCWD, to, buffer, sizeof buffer)) == FAILS ? -1 : system_##name(from, to); \
    }
TWO_NAMES(rename, "rename")
TWO_NAMES(link, "link")

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
    char buffer[4096];
    SYSTEM(int, renameat, int, const char *, int, const char *);
    if (fate_of("rename", absolute(to_folder, to, buffer, sizeof buffer)) == FAILS)
        return -1;
    return system_renameat(from_folder, from, to_folder, to);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    char buffer[4096];
    SYSTEM(int, linkat, int, const char *, int, const char *, int);
    if (fate_of("link", absolute(to_folder, to, buffer, sizeof buffer)) == FAILS)
        return -1;
    return system_linkat(from_folder, from, to_folder, to, flags);
}

int mkdir(const char *path, mode_t mode)
{
    char buffer[4096];
    SYSTEM(int, mkdir, const char *, mode_t);
    if (!access(path, F_OK))
        return system_mkdir(path, mode); /* which tells that it is there */
    return fate_of("mkdir", absolute(AT_FDCWD, path, buffer, sizeof buffer)) == FAILS ? -1 : system_mkdir(path, mode);
}

ssize_t read(int file, void *data, size_t size)
{
    SYSTEM(ssize_t, read, int, void *, size_t);
    return unreadable(file) ? -1 : system_read(file, data, size);
}

#define PREAD(name, offset) \
    ssize_t name(int file, void *data, size_t size, offset at) \
    { \
        SYSTEM(ssize_t, name, int, void *, size_t, offset); \
        return unreadable(file) ? -1 : system_##name(file, data, size, at); \
    }
PREAD(pread, off_t)
PREAD(pread64, off64_t)
