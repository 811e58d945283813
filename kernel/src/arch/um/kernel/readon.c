// SPDX-License-Identifier: GPL-2.0
/*
 * Reads that the kernel makes for a program, on the virtual clock.
 *
 * A receiver that reads until its buffer is full,
 *
 *	while (left) { got = read(fd, buffer, left); buffer += got; left -= got; }
 *
 * takes no virtual time between two reads, so the kernel makes the next one itself,
 * without the way to the program and back. Each is paid for as if the program had
 * made it, and in between whoever is to run runs. The program gets all that was read
 * together; it cannot tell, as long as it looks at nothing between two reads.
 *
 * The lab says which programs read like that, and by how large a buffer they are
 * known: prctl(TT_READ_ON, bytes), which costs nothing. It holds for the calling
 * thread, and for all that it starts from then on; 0 ends it. Only a read of exactly
 * so many bytes is gone on with.
 *
 * A signal ends it: the program gets what there is, and its handler runs as between
 * two reads. At an error and at the end of the stream the program gets what there
 * is as well; that answer, which has been paid for, it gets at its next read. That
 * nothing was there (-EAGAIN) it is told only where that read is its next call: data
 * may come during any other, and an edge-triggered epoll announces them once.
 */

#include <linux/err.h>
#include <linux/errno.h>
#include <linux/gostlab.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/thread_info.h>
#include <linux/time-internal.h>
#include <asm/unistd.h>
#include <sysdep/ptrace.h>
#include <gostlab.h>

#define TT_READ_ON 0x676f7374	/* "gost" */

/* The reads that were made for programs, since boot. */
static unsigned long tt_reads_made;
core_param(tt_reads_made, tt_reads_made, ulong, 0444);

/* Where the kernel counts rounds through user mode, it counts those that were spared. */
void __weak tt_count_user_rounds(int rounds)
{
}

/* What interrupt_end() does on the way to user mode; false if that is more than to switch. */
static bool may_go_on(void)
{
	for (;;) {
		if (signal_pending(current) || test_thread_flag(TIF_NOTIFY_RESUME))
			return false;
		if (!need_resched())
			return true;
		schedule();
	}
}

static bool is_watched(void)
{
	return test_thread_flag(TIF_SYSCALL_TRACE) || test_thread_flag(TIF_SINGLESTEP) ||
	       test_thread_flag(TIF_SECCOMP);
}

static bool is_restarted(unsigned long ret)
{
	return ret == -ERESTARTSYS || ret == -ERESTARTNOINTR || ret == -ERESTARTNOHAND ||
	       ret == -ERESTART_RESTARTBLOCK;
}

/*
 * A call that is not to be carried out: the lab's word, or a read whose answer is
 * known. True, with its answer.
 */
bool tt_answers(struct uml_pt_regs *r, unsigned long *ret)
{
	int syscall = UPT_SYSCALL_NR(r);
	struct tt_read_on *on = &current->thread.read_on;

	if (time_travel_mode != TT_MODE_INFCPU)
		return false;
	if (syscall == __NR_prctl && UPT_SYSCALL_ARG1(r) == TT_READ_ON) {
		on->bytes = UPT_SYSCALL_ARG2(r);
		*ret = 0;
	} else if (syscall == __NR_read && on->is_known) {
		on->is_known = false;
		if (UPT_SYSCALL_ARG1(r) != on->fd || UPT_SYSCALL_ARG2(r) != on->buffer ||
		    UPT_SYSCALL_ARG3(r) != on->left)
			return false;
		*ret = on->answer;
	} else {
		if (on->is_known && on->answer == -EAGAIN)
			on->is_known = false;
		return false;
	}
	tt_count_user_rounds(-1);	/* the one that it took to ask */
	return true;
}

/* What the program gets of a read that has been made, and paid for. */
unsigned long tt_read_on(struct uml_pt_regs *r, int syscall, unsigned long got)
{
	struct tt_read_on *on = &current->thread.read_on;
	unsigned long fd, buffer, left, total = 0;

	if (syscall != __NR_read || !on->bytes || UPT_SYSCALL_ARG3(r) != on->bytes ||
	    is_watched())
		return got;

	fd = UPT_SYSCALL_ARG1(r);
	buffer = UPT_SYSCALL_ARG2(r);
	left = UPT_SYSCALL_ARG3(r);
	while (!IS_ERR_VALUE(got) && got) {
		total += got;
		buffer += got;
		left -= got;
		if (!left || !may_go_on())
			return total;
		tt_count_user_rounds(1);
		got = tt_read_once_more(r, fd, buffer, left);
		tt_reads_made++;
	}
	if (!total)
		return got;
	if (!is_restarted(got)) {
		on->is_known = true;
		on->fd = fd;
		on->buffer = buffer;
		on->left = left;
		on->answer = got;
	}
	return total;
}
