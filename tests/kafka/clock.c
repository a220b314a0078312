/* Moves the clock of the processes that load it (LD_PRELOAD) by the seconds in the file CLOCK_SHIFT.

   Monotonic clocks go on. A thread that waits until a time of day looks at the moved clock five times a second,
   because the kernel knows only the real one. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SLICE_NS 200000000L
#define OF_TODAY 1000000000L /* A later second is one of a time of day, not one since the start of the machine. */

static long nothing;
static volatile long *shift = &nothing;

__attribute__((constructor)) static void load(void) {
    const char *name = getenv("CLOCK_SHIFT");
    int file = name ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *found = mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    if (found != MAP_FAILED) shift = found;
    close(file);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int done = (int)syscall(SYS_clock_gettime, clock, now);
    if (done == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *shift;
    return done;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec found;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &found);
    now->tv_sec = found.tv_sec;
    now->tv_usec = found.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *target) {
    struct timespec found;
    clock_gettime(CLOCK_REALTIME, &found);
    if (target) *target = found.tv_sec;
    return found.tv_sec;
}

int timespec_get(struct timespec *now, int base) {
    return base == TIME_UTC && clock_gettime(CLOCK_REALTIME, now) == 0 ? base : 0;
}

static long nanoseconds(const struct timespec *time) { return time->tv_sec * 1000000000L + time->tv_nsec; }

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    static int (*real)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);
    if (!real) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real) real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
    if (until->tv_sec < OF_TODAY) return real(condition, mutex, until);
    struct timespec now, slice;
    clock_gettime(CLOCK_REALTIME, &now);
    long left = nanoseconds(until) - nanoseconds(&now);
    long at = nanoseconds(&now) - *shift * 1000000000L + (left < SLICE_NS ? left : SLICE_NS);
    slice.tv_sec = at / 1000000000L;
    slice.tv_nsec = at % 1000000000L;
    int done = real(condition, mutex, &slice);
    if (done != ETIMEDOUT) return done;
    clock_gettime(CLOCK_REALTIME, &now);
    /* A wait may end without a reason: who waits looks again, and waits on. */
    return nanoseconds(&now) < nanoseconds(until) ? 0 : ETIMEDOUT;
}

int cnd_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until) {
    int done = pthread_cond_timedwait(condition, mutex, until);
    return done == 0 ? 0 /* thrd_success */ : done == ETIMEDOUT ? 4 /* thrd_timedout */ : 2 /* thrd_error */;
}
