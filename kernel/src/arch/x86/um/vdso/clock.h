/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The clock as the vDSO's code reads it: a page below that code.
 */
#ifndef __UM_VDSO_CLOCK_H
#define __UM_VDSO_CLOCK_H

enum vdso_clock_id {
	VDSO_REALTIME,
	VDSO_MONOTONIC,
	VDSO_REALTIME_COARSE,
	VDSO_MONOTONIC_COARSE,
	VDSO_CLOCKS,
};

/* So many reads in a row, then a real call: a loop that waits for time gets on. */
#define VDSO_READS 64

struct vdso_clock {
	unsigned int is_on;
	unsigned int reads;	/* since the last system call */
	struct {
		long long tv_sec;
		long long tv_nsec;
	} at[VDSO_CLOCKS];
};

#endif
