/* librdkafka's waits for so many milliseconds end at a time of day: it adds them to what the wall clock shows and calls
 * cnd_timedwait. When the clock is set back meanwhile, as it is on a machine that began with a wrong one, they last so many hours
 * longer, and with them whatever they hold up: a broker is not connected to again, a thread that is told to end is joined for hours
 * (https://github.com/confluentinc/librdkafka/issues/2145). So walferry has a cnd_timedwait of its own, which the linker prefers to that
 * of the C library, and which measures what is left with the clock that cannot be set.
 *
 * In glibc a cnd_t is a pthread_cond_t, and a mtx_t a pthread_mutex_t; its own cnd_timedwait relies on that, too. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <threads.h>
#include <time.h>

#define SECOND 1000000000L

_Static_assert(sizeof(cnd_t) == sizeof(pthread_cond_t), "a cnd_t is a pthread_cond_t");
_Static_assert(sizeof(mtx_t) <= sizeof(pthread_mutex_t), "a mtx_t is a pthread_mutex_t");

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict until) {
    struct timespec now, end;
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += until->tv_sec - now.tv_sec;
    end.tv_nsec += until->tv_nsec - now.tv_nsec;
    if (end.tv_nsec < 0) {
        end.tv_nsec += SECOND;
        end.tv_sec--;
    } else if (end.tv_nsec >= SECOND) {
        end.tv_nsec -= SECOND;
        end.tv_sec++;
    }
    switch (pthread_cond_clockwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, CLOCK_MONOTONIC, &end)) {
        case 0: return thrd_success;
        case ETIMEDOUT: return thrd_timedout;
        default: return thrd_error;
    }
}
