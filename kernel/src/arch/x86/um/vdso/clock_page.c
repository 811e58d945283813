// SPDX-License-Identifier: GPL-2.0-only
/*
 * The page in which programs read the clock without a system call.
 *
 * In time-travel=inf-cpu no time passes in user mode, so with tt_vdso_clock=1 the time
 * of the return to it holds until the next entry into the kernel. It stands in a page
 * below the vDSO's code, which all processes share: one of them runs at a time.
 */

#include <linux/gfp.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/moduleparam.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/time-internal.h>
#include <linux/timekeeping.h>
#include <asm/elf.h>
#include <asm/irqflags.h>
#include <asm/page.h>
#include <gostlab.h>
#include "clock.h"
#include "clock_page.h"

static bool tt_vdso_clock;
core_param(tt_vdso_clock, tt_vdso_clock, bool, 0444);

static struct vdso_clock *vdso_clock;

static vm_fault_t clock_fault(const struct vm_special_mapping *sm,
			      struct vm_area_struct *vma, struct vm_fault *vmf)
{
	return vmf_insert_pfn(vma, vmf->address, page_to_pfn(virt_to_page(vdso_clock)));
}

static void publish(enum vdso_clock_id id, struct timespec64 at)
{
	vdso_clock->at[id].tv_sec = at.tv_sec;
	vdso_clock->at[id].tv_nsec = at.tv_nsec;
}

void tt_publish_clock(void)
{
	struct timespec64 at;
	unsigned long flags;

	if (!vdso_clock->is_on)
		return;

	/* With interrupts off a look at the clock does not move it. */
	local_irq_save(flags);
	ktime_get_real_ts64(&at);
	publish(VDSO_REALTIME, at);
	ktime_get_ts64(&at);
	publish(VDSO_MONOTONIC, at);
	ktime_get_coarse_real_ts64(&at);
	publish(VDSO_REALTIME_COARSE, at);
	ktime_get_coarse_ts64(&at);
	publish(VDSO_MONOTONIC_COARSE, at);
	/* A page fault is no act of the program: where its data lies decides it. */
	if (PT_REGS_SYSCALL_NR(current_pt_regs()) >= 0)
		vdso_clock->reads = 0;
	local_irq_restore(flags);
}

void __init vdso_clock_init(void)
{
	vdso_clock = (void *)get_zeroed_page(GFP_KERNEL);
	if (!vdso_clock)
		panic("Cannot allocate vdso's clock\n");
	vdso_clock->is_on = tt_vdso_clock && time_travel_mode == TT_MODE_INFCPU;
}

/* Called with the mmap lock held for writing. */
struct vm_area_struct *vdso_clock_map(struct mm_struct *mm)
{
	static struct vm_special_mapping clock_mapping = {
		.name = "[vclock]",
		.fault = clock_fault,
	};

	return _install_special_mapping(mm, um_vdso_addr - PAGE_SIZE, PAGE_SIZE,
		VM_READ|VM_WRITE|VM_SHARED|
		VM_MAYREAD|VM_MAYWRITE|VM_MAYSHARE|
		VM_PFNMAP|VM_IO|VM_DONTDUMP|VM_DONTEXPAND,
		&clock_mapping);
}
