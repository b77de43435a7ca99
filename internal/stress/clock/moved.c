// The clock of a program that is not written in Go, moved as moved.go.txt moves that of Go:
// by the nanoseconds that PATH says. Timers are left alone. Loaded by LD_PRELOAD.
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long long ahead = -1;

int clock_gettime(clockid_t clock, struct timespec *t) {
	int result = syscall(SYS_clock_gettime, clock, t);
	if (ahead < 0) {
		const char *path = getenv("PATH"), *mark = path ? strstr(path, "/ahead=") : NULL;
		ahead = mark ? atoll(mark + strlen("/ahead=")) : 0;
	}
	if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
		long long nanoseconds = t->tv_nsec + ahead;
		t->tv_sec += nanoseconds / 1000000000;
		t->tv_nsec = nanoseconds % 1000000000;
	}
	return result;
}

int gettimeofday(struct timeval *t, void *zone) {
	struct timespec now;
	int result = clock_gettime(CLOCK_REALTIME, &now);
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return result;
}

time_t time(time_t *t) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (t) *t = now.tv_sec;
	return now.tv_sec;
}
