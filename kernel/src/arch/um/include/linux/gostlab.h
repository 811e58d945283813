/* SPDX-License-Identifier: GPL-2.0 */
/*
 * CPU costs on the virtual clock and runs that repeat (CONFIG_UML_GOSTLAB): what the
 * kernel's own files call.
 */
#ifndef __UM_GOSTLAB_H
#define __UM_GOSTLAB_H

#include <linux/types.h>

struct uml_pt_regs;

/* time.c */
unsigned long long time_travel_now(void);
void time_travel_sleep_until(unsigned long long at);

/* drivers/char/random.c, and before Linux 7.0 kernel/time/tick-sched.c */
int tt_pin_random(u64 seed);
void tt_reset_idle_time(void);

/* skas/syscall.c */
unsigned long tt_read_once_more(struct uml_pt_regs *r, unsigned long fd, unsigned long buffer,
				unsigned long count);

#ifdef CONFIG_UML_GOSTLAB
/* cpucost.c */
bool tt_host_pays(void);
void tt_pay_for_call(struct uml_pt_regs *r, int syscall, unsigned long ret);

/* readon.c */
bool tt_answers(struct uml_pt_regs *r, unsigned long *ret);
unsigned long tt_read_on(struct uml_pt_regs *r, int syscall, unsigned long got);
#else
static inline bool tt_host_pays(void)
{
	return false;
}

static inline void tt_pay_for_call(struct uml_pt_regs *r, int syscall, unsigned long ret)
{
}

static inline bool tt_answers(struct uml_pt_regs *r, unsigned long *ret)
{
	return false;
}

static inline unsigned long tt_read_on(struct uml_pt_regs *r, int syscall, unsigned long got)
{
	return got;
}
#endif

#endif
