/*
 * Whether registers, floating point's too, are each thread's own: over calls that let others run,
 * over faults of fresh memory, over a fork, and over a signal whose handler uses them; with more
 * threads than the kernel gives a host process each. Prints "kept N" with the number of looks.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 100
#define LOOKS 60
#define FRESH_BYTES (1 << 18) /* malloc maps as many anew */

static long handled;

/* Put a value into some registers, make a call, and say whether they still have it. */
static int kept_over(long call, long first, long second, uint64_t value)
{
	uint64_t low, high, general;
	register long signal_number asm("rdx") = second;

	asm volatile("movq %[value], %%xmm3\n\t"
		     "movq %[value], %%xmm14\n\t"
		     "movq %[value], %%r15\n\t"
		     "syscall\n\t"
		     "movq %%xmm3, %[low]\n\t"
		     "movq %%xmm14, %[high]\n\t"
		     "movq %%r15, %[general]\n\t"
		     : [low] "=&r"(low), [high] "=&r"(high), [general] "=r"(general), "+a"(call)
		     : [value] "r"(value), "D"(first), "S"(second), "r"(signal_number)
		     : "rcx", "r11", "r15", "xmm3", "xmm14", "memory");
	return low == value && high == value && general == value;
}

static void scribble(int signal_number)
{
	uint64_t junk = 0xbad0bad0bad0bad0 + signal_number;

	asm volatile("movq %0, %%xmm3\n\tmovq %0, %%xmm14" : : "r"(junk) : "xmm3", "xmm14");
	handled++;
}

static void look(uint64_t value)
{
	for (int i = 0; i < LOOKS; i++) {
		volatile char *fresh = malloc(FRESH_BYTES);

		fresh[FRESH_BYTES / 2] = i;
		free((void *)fresh);
		if (!kept_over(SYS_sched_yield, 0, 0, value + i)) {
			printf("lost in %d, look %d\n", getpid(), i);
			exit(1);
		}
	}
}

static void *thread(void *value)
{
	look((uint64_t)value << 32);
	return NULL;
}

int main(void)
{
	pthread_t threads[THREADS];
	int status;

	signal(SIGUSR1, scribble);
	for (uint64_t i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, thread, (void *)(i + 1));
	for (uint64_t i = 0; i < 20; i++) {
		if (!kept_over(SYS_kill, getpid(), SIGUSR1, i + 7) ||
		    !kept_over(SYS_fork, 0, 0, i + 9)) {
			printf("lost over a signal or a fork in %d\n", getpid());
			return 1;
		}
		if (waitpid(-1, &status, 0) < 0)
			_exit(0); /* the child: it has none of its own */
		if (status)
			return 1;
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	printf("kept %d over %ld signals\n", THREADS * LOOKS, handled);
	return 0;
}
