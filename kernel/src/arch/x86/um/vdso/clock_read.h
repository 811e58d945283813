/* SPDX-License-Identifier: GPL-2.0-only */
/* Read the clock's page in the vDSO's own code. */
#ifndef __UM_VDSO_CLOCK_READ_H
#define __UM_VDSO_CLOCK_READ_H

#include "clock.h"

/* The linker script places it; clock_page.c maps it. */
extern struct vdso_clock vdso_clock __attribute__((visibility("hidden")));

/* Whether the page says it; if not, the caller makes the system call. */
static __always_inline int clock_from_page(clockid_t clock, long long *sec, long long *nsec)
{
	volatile struct vdso_clock *page = &vdso_clock;
	enum vdso_clock_id id;

	switch (clock) {
	case CLOCK_REALTIME:
		id = VDSO_REALTIME;
		break;
	case CLOCK_MONOTONIC:
	case CLOCK_BOOTTIME:
		id = VDSO_MONOTONIC;
		break;
	case CLOCK_REALTIME_COARSE:
		id = VDSO_REALTIME_COARSE;
		break;
	case CLOCK_MONOTONIC_COARSE:
		id = VDSO_MONOTONIC_COARSE;
		break;
	default:
		return 0;
	}
	if (!page->is_on || ++page->reads >= VDSO_READS)
		return 0;
	*sec = page->at[id].tv_sec;
	*nsec = page->at[id].tv_nsec;
	return 1;
}

#endif
