/* SPDX-License-Identifier: GPL-2.0 */
/* What UML's kernel side and its host side (os-Linux) call of each other for gostlab. */
#ifndef __UM_SHARED_GOSTLAB_H
#define __UM_SHARED_GOSTLAB_H

/* os-Linux/util.c: the state of the generator of uml_seed=; 0: the host's randomness */
extern unsigned long long os_random_seed;

/* arch/x86/um/vdso/clock_page.c: called at every return to user mode */
void tt_publish_clock(void);

/* os-Linux/skas/process.c: count rounds through user mode that were not made */
void tt_count_user_rounds(int rounds);

#endif
