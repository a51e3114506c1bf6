/*
 * engine.c
 *		The threads of a round: each has its own epoll, its own clients, its
 *		own counters, and shares nothing with the others while it works.
 *
 * cb_engine_run_round() runs in the main thread: it moves the round from stage
 * to stage, looks at the clock and at the user's interrupts, and adds up what
 * the threads have counted after they have ended.
 *
 * The window begins after the warm-up and ends, as pgbench's does, when the
 * last request that began in it has ended: nothing in flight is cut off, short
 * rounds read a little low, and no request is lost.
 */
#include "engine.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "../common/clock.h"
#include "client.h"
#include "message.h"

#define TIMER_TICK_MS	10		/* how exactly deadlines and backoffs are kept */
#define MAIN_TICK_NS	5000000
#define MAX_EVENTS		64

volatile sig_atomic_t cb_interrupts = 0;

/* ------------------------------------------------------------------------
 * A thread
 * ------------------------------------------------------------------------
 */

static void
run_timers(cb_worker *w)
{
	uint64_t	now_ns = cb_now_ns();

	for (int i = 0; i < w->nclients; i++)
		cb_client_on_time(&w->client[i], now_ns);
}

static void
handle_events(cb_worker *w, int timeout_ms)
{
	struct epoll_event events[MAX_EVENTS];
	int			n = epoll_wait(w->epoll_fd, events, MAX_EVENTS, timeout_ms);

	for (int i = 0; i < n; i++)
	{
		uint64_t	ignored;

		if (events[i].data.ptr != NULL)
			cb_client_on_event(events[i].data.ptr, events[i].events);
		else if (read(w->wake_fd, &ignored, sizeof(ignored)) < 0)
			continue;			/* already read: nothing to do */
	}
}

/* Handles events and deadlines until there is another stage, or no work. */
static void
work_until(cb_worker *w, cb_stage stage)
{
	uint64_t	next_tick_ns = 0;

	while ((cb_stage) atomic_load(&w->control->stage) == stage && w->unfinished > 0)
	{
		handle_events(w, TIMER_TICK_MS);
		if (cb_now_ns() >= next_tick_ns)
		{
			run_timers(w);
			next_tick_ns = cb_now_ns() + TIMER_TICK_MS * UINT64_C(1000000);
		}
	}
}

static void *
worker_main(void *arg)
{
	cb_worker  *w = arg;

	if (atomic_load(&w->control->stage) == CB_STAGE_CONNECT)
	{
		for (int i = 0; i < w->nclients; i++)
			cb_client_connect_first(&w->client[i]);
		work_until(w, CB_STAGE_CONNECT);
	}
	if (atomic_load(&w->control->stage) == CB_STAGE_RUN)
	{
		for (int i = 0; i < w->nclients; i++)
			cb_client_next_request(&w->client[i]);
		work_until(w, CB_STAGE_RUN);
	}
	for (int i = 0; i < w->nclients; i++)
		cb_client_abandon(&w->client[i]);
	atomic_store(&w->live_finished, true);

	/* the window is closed before connections are */
	while (atomic_load(&w->control->stage) != CB_STAGE_STOP)
	{
		uint64_t	ignored;
		struct timespec tick = {.tv_nsec = MAIN_TICK_NS};

		if (read(w->wake_fd, &ignored, sizeof(ignored)) < 0)
			nanosleep(&tick, NULL);
	}
	for (int i = 0; i < w->nclients; i++)
		cb_client_close(&w->client[i]);
	return NULL;
}

/* ------------------------------------------------------------------------
 * Setting up and tearing down
 * ------------------------------------------------------------------------
 */

static void
init_worker(cb_worker *w, cb_control *control, int nclients, uint64_t *seed)
{
	struct epoll_event ev = {.events = EPOLLIN,.data.ptr = NULL};

	w->control = control;
	w->nclients = w->unfinished = nclients;
	w->client = cb_alloc(sizeof(cb_client) * (unsigned long) nclients);
	for (int i = 0; i < nclients; i++)
	{
		w->client[i].worker = w;
		cb_random_seed(&w->client[i].random, cb_splitmix64(seed));
	}
	for (int m = 0; m < CB_MEASURE_COUNT; m++)
		cb_histogram_init(&w->measure[m]);
	atomic_store(&w->live_unsettled, nclients);
	w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	w->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (w->epoll_fd < 0 || w->wake_fd < 0 ||
		epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, w->wake_fd, &ev) != 0)
	{
		cb_error("could not set up epoll: %m");
		exit(1);
	}
}

static void
free_worker(cb_worker *w)
{
	close(w->wake_fd);
	close(w->epoll_fd);
	free(w->client);
}

typedef struct Threads
{
	int			n;
	cb_worker  *worker;
	pthread_t  *thread;
} Threads;

static void
start_threads(Threads *t, cb_control *control)
{
	const cb_round_plan *plan = control->plan;
	uint64_t	seed = plan->seed;

	t->n = plan->threads < plan->clients ? plan->threads : plan->clients;
	t->worker = cb_alloc(sizeof(cb_worker) * (unsigned long) t->n);
	t->thread = cb_alloc(sizeof(pthread_t) * (unsigned long) t->n);
	for (int i = 0; i < t->n; i++)
		init_worker(&t->worker[i], control,
					plan->clients / t->n + (i < plan->clients % t->n ? 1 : 0), &seed);
	for (int i = 0; i < t->n; i++)
	{
		if (pthread_create(&t->thread[i], NULL, worker_main, &t->worker[i]) != 0)
		{
			cb_error("could not start a thread: %m");
			exit(1);
		}
	}
}

static void
set_stage(Threads *t, cb_control *control, cb_stage stage)
{
	uint64_t	one = 1;

	atomic_store(&control->stage, stage);
	for (int i = 0; i < t->n; i++)
	{
		if (write(t->worker[i].wake_fd, &one, sizeof(one)) < 0)
			continue;			/* the counter is full: it will wake anyway */
	}
}

/* ------------------------------------------------------------------------
 * The course of a round
 * ------------------------------------------------------------------------
 */

static bool
all_settled(const Threads *t)
{
	for (int i = 0; i < t->n; i++)
	{
		if (atomic_load(&t->worker[i].live_unsettled) > 0)
			return false;
	}
	return true;
}

static bool
all_finished(const Threads *t)
{
	for (int i = 0; i < t->n; i++)
	{
		if (!atomic_load(&t->worker[i].live_finished))
			return false;
	}
	return true;
}

static void
report_progress(const Threads *t, const cb_control *control)
{
	const cb_round_plan *plan = control->plan;
	int64_t		succeeded = 0;
	int64_t		failed = 0;
	int64_t		elapsed_ns = (int64_t) (cb_now_ns() - control->measure_start_ns);

	for (int i = 0; i < t->n; i++)
	{
		succeeded += atomic_load_explicit(&t->worker[i].live_succeeded, memory_order_relaxed);
		failed += atomic_load_explicit(&t->worker[i].live_failed, memory_order_relaxed);
	}
	if (plan->progress != NULL && elapsed_ns > 0)
		plan->progress(plan->arg, succeeded, failed, (double) elapsed_ns / 1e9);
}

static void
pause_briefly(void)
{
	struct timespec tick = {.tv_nsec = MAIN_TICK_NS};

	nanosleep(&tick, NULL);
}

static int64_t
microseconds(struct timeval tv)
{
	return (int64_t) tv.tv_sec * 1000000 + tv.tv_usec;
}

/* Times of the window, from now on. */
static void
plan_window(cb_control *control)
{
	const cb_round_plan *plan = control->plan;

	control->measure_start_ns = cb_now_ns() + (uint64_t) (plan->warmup_s * 1e9);
	atomic_store(&control->measure_end_ns,
				 control->measure_start_ns + (uint64_t) (plan->duration_s * 1e9));
}

/*
 * Persistent mode: until every client has either connected or failed to.
 * An interrupt leaves the round without a window.
 */
static void
connect_clients(Threads *t, cb_control *control, cb_round *round)
{
	uint64_t	start_ns = cb_now_ns();

	while (!all_settled(t) && cb_interrupts == 0)
		pause_briefly();
	plan_window(control);
	if (cb_interrupts == 0)
	{
		round->initial_connect_ns = (int64_t) (cb_now_ns() - start_ns);
		set_stage(t, control, CB_STAGE_RUN);
	}
	else
		set_stage(t, control, CB_STAGE_STOP);
}

static void
warm_up(const cb_control *control)
{
	while (cb_now_ns() < control->measure_start_ns && cb_interrupts == 0)
		pause_briefly();
}

/*
 * Until every thread has finished.  The first interrupt moves the end of the
 * window to now; the second, or a request that outlasts the window by the time
 * that connecting may take, stops everything.
 */
static void
measure(Threads *t, cb_control *control)
{
	uint64_t	patience_ns = (uint64_t) (control->plan->connect_timeout_s * 1e9);
	bool		ending = false;

	while (!all_finished(t))
	{
		uint64_t	now_ns = cb_now_ns();
		uint64_t	end_ns = atomic_load(&control->measure_end_ns);

		if (cb_interrupts > 0 && !ending)
		{
			ending = true;
			if (now_ns < end_ns)
				atomic_store(&control->measure_end_ns, end_ns = now_ns);
		}
		if (cb_interrupts > 1 || now_ns > end_ns + patience_ns)
			break;
		report_progress(t, control);
		pause_briefly();
	}
}

static void
collect(const Threads *t, const cb_control *control, cb_round *round)
{
	cb_failures *failures = cb_alloc(sizeof(cb_failures));
	uint64_t	end_ns = atomic_load(&control->measure_end_ns);

	for (int m = 0; m < CB_MEASURE_COUNT; m++)
		cb_histogram_init(&round->measure[m]);
	for (int i = 0; i < t->n; i++)
	{
		const cb_worker *w = &t->worker[i];

		round->attempted += w->attempted;
		round->succeeded += w->succeeded;
		round->failed += w->failed;
		round->abandoned += w->abandoned;
		round->warmup_requests += w->warmup_requests;
		round->connects_attempted += w->connects_attempted;
		round->connects_failed += w->connects_failed;
		for (int m = 0; m < CB_MEASURE_COUNT; m++)
			cb_histogram_add(&round->measure[m], &w->measure[m]);
		cb_failures_merge(failures, &w->failures);
		if (w->last_done_ns > end_ns)
			end_ns = w->last_done_ns;
	}
	round->window_ns = end_ns > control->measure_start_ns ?
		end_ns - control->measure_start_ns : 0;
	round->nfailures = failures->n;
	round->failure = failures->failure;
}

void
cb_engine_run_round(const cb_round_plan *plan, cb_round *round)
{
	cb_control	control = {.plan = plan};
	Threads		threads;
	struct timespec wall;
	bool		persistent = plan->mode == CB_MODE_PERSISTENT;
	struct rusage before;
	struct rusage after;

	clock_gettime(CLOCK_REALTIME, &wall);
	round->started_at_us = (int64_t) wall.tv_sec * 1000000 + wall.tv_nsec / 1000;
	round->initial_connect_ns = CB_UNKNOWN;

	plan_window(&control);
	atomic_store(&control.stage, persistent ? CB_STAGE_CONNECT : CB_STAGE_RUN);
	start_threads(&threads, &control);
	if (persistent)
		connect_clients(&threads, &control, round);

	warm_up(&control);
	if (plan->window != NULL)
		plan->window(plan->arg, true);
	getrusage(RUSAGE_SELF, &before);
	measure(&threads, &control);
	getrusage(RUSAGE_SELF, &after);
	if (plan->window != NULL)
		plan->window(plan->arg, false);

	set_stage(&threads, &control, CB_STAGE_STOP);
	for (int i = 0; i < threads.n; i++)
		pthread_join(threads.thread[i], NULL);
	round->cpu_user_us = microseconds(after.ru_utime) - microseconds(before.ru_utime);
	round->cpu_system_us = microseconds(after.ru_stime) - microseconds(before.ru_stime);
	round->partial = cb_interrupts > 0;
	collect(&threads, &control, round);

	for (int i = 0; i < threads.n; i++)
		free_worker(&threads.worker[i]);
	free(threads.worker);
	free(threads.thread);
}
