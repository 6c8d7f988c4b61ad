/* The wall clock of one process, set forwards and backwards as an operator or NTP does: preloaded into walferry by clock.rs.
 *
 * What is measured with the monotonic clock stays true, as it does on a machine whose clock is set. A wait that ends at a time of day
 * follows the clock, as in the kernel: after a step backwards it lasts so much longer, after one forwards it ends. librdkafka waits so,
 * with cnd_timedwait, which libfaketime leaves alone. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL
/* How late a wait hears of a step. */
#define SLICE (10 * SECOND / 1000)

static int (*real_clock_gettime)(clockid_t, struct timespec *);
static int (*real_cnd_timedwait)(cnd_t *, mtx_t *, const struct timespec *);
/* In nanoseconds: how far the clock is ahead. */
static const int64_t *ahead;

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("WALFERRY_TEST_CLOCK");
    real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    real_cnd_timedwait = (int (*)(cnd_t *, mtx_t *, const struct timespec *))dlsym(RTLD_NEXT, "cnd_timedwait");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *mapped = file < 0 ? MAP_FAILED : mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, file, 0);
    if (!real_clock_gettime || !real_cnd_timedwait || mapped == MAP_FAILED) abort();
    close(file);
    ahead = mapped;
}

static int64_t nanoseconds(const struct timespec *t) { return t->tv_sec * SECOND + t->tv_nsec; }

static struct timespec timespec(int64_t ns) { return (struct timespec){.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND}; }

static int64_t true_time(void) {
    struct timespec now;
    real_clock_gettime(CLOCK_REALTIME, &now);
    return nanoseconds(&now);
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    int failed = real_clock_gettime(clock, t);
    if (!failed && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        *t = timespec(nanoseconds(t) + __atomic_load_n(ahead, __ATOMIC_RELAXED));
    return failed;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    *t = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *t) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (t) *t = now.tv_sec;
    return now.tv_sec;
}

int cnd_timedwait(cnd_t *condition, mtx_t *mutex, const struct timespec *until) {
    for (;;) {
        int64_t now = true_time();
        int64_t left = nanoseconds(until) - (now + __atomic_load_n(ahead, __ATOMIC_RELAXED));
        struct timespec slice = timespec(now + (left < 0 ? 0 : left < SLICE ? left : SLICE));
        int result = real_cnd_timedwait(condition, mutex, &slice);
        if (result != thrd_timedout || left <= 0) return result;
    }
}
