/* Preloaded (LD_PRELOAD): the wall's clock of every process runs ahead of the system's by as many nanoseconds as stand in a
 * small file, whose path is in WALL_CLOCK_FILE. Whoever changes the file sets the clock for all of them at once.
 *
 * Clocks that nobody can set (monotonic, boot time, CPU) are left alone, and so is every wait. The times of files are the
 * kernel's: to these processes they lie in the past or in the future, as those of a disk with another clock do.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const int64_t *ahead;
static int (*system_clock)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void)
{
    const char *path = getenv("WALL_CLOCK_FILE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *page = MAP_FAILED;

    if (file >= 0)
        page = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        fputs("the file of the clock cannot be read\n", stderr);
        _exit(127);
    }
    close(file);
    ahead = page;
    system_clock = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
}

int clock_gettime(clockid_t id, struct timespec *now)
{
    int64_t nanoseconds;

    /* A constructor of another library may ask before ours has run. */
    if (system_clock ? system_clock(id, now) : (int)syscall(SYS_clock_gettime, id, now))
        return -1;
    if (ahead && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        nanoseconds = now->tv_nsec + __atomic_load_n(ahead, __ATOMIC_RELAXED);
        now->tv_sec += nanoseconds / 1000000000;
        now->tv_nsec = nanoseconds % 1000000000;
        if (now->tv_nsec < 0) {
            now->tv_nsec += 1000000000;
            now->tv_sec--;
        }
    }
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec exact;

    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now)
{
    struct timespec exact;

    clock_gettime(CLOCK_REALTIME_COARSE, &exact);
    if (now)
        *now = exact.tv_sec;
    return exact.tv_sec;
}

int timespec_get(struct timespec *now, int base)
{
    return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, now) ? base : 0;
}
