// SPDX-License-Identifier: GPL-2.0
/*
 * Start a run at a whole second of the virtual clock, and from a seed.
 *
 * Whoever writes a number to /sys/module/kernel/parameters/tt_begin_anew sleeps until
 * the next whole second, to the ns, and finds random numbers that start from that
 * number and are not reseeded. The run does not depend on how many calls came before.
 */

#include <linux/errno.h>
#include <linux/gostlab.h>
#include <linux/kernel.h>
#include <linux/kernel_stat.h>
#include <linux/moduleparam.h>
#include <linux/time-internal.h>
#include <linux/time64.h>
#include <linux/version.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(7, 0, 0)
/*
 * /proc/stat counts in hundredths of a second: start one, so that the idle time of a
 * run does not depend on what part of one was over. Before Linux 7.0 the time is kept
 * in kernel/time/tick-sched.c.
 */
void tt_reset_idle_time(void)
{
	u64 *stat = kcpustat_this_cpu->cpustat;

	stat[CPUTIME_IDLE] -= stat[CPUTIME_IDLE] % (NSEC_PER_SEC / USER_HZ);
	stat[CPUTIME_IOWAIT] -= stat[CPUTIME_IOWAIT] % (NSEC_PER_SEC / USER_HZ);
}
#endif

static int begin_anew(const char *value, const struct kernel_param *param)
{
	unsigned long long now = time_travel_now();
	u64 seed;
	int err = kstrtou64(value, 0, &seed);

	if (err)
		return err;
	if (time_travel_mode != TT_MODE_INFCPU)
		return -EOPNOTSUPP;

	time_travel_sleep_until(now - now % NSEC_PER_SEC + NSEC_PER_SEC);
	err = tt_pin_random(seed);
	if (err)
		return err;
	tt_reset_idle_time();
	return 0;
}

static const struct kernel_param_ops begin_anew_ops = {
	.set = begin_anew,
};
/* __core_param_cb() of Linux 6.13 and later */
__module_param_call("", tt_begin_anew, &begin_anew_ops, NULL, 0200, -1, 0);
