/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __UM_VDSO_CLOCK_PAGE_H
#define __UM_VDSO_CLOCK_PAGE_H

struct mm_struct;
struct vm_area_struct;

void vdso_clock_init(void);
struct vm_area_struct *vdso_clock_map(struct mm_struct *mm);

#endif
