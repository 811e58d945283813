/* SPDX-License-Identifier: GPL-2.0 */
/* What a call costs a program that has costs of its own (programs.c). */
#ifndef __UM_CPUCOST_H
#define __UM_CPUCOST_H

#include <linux/types.h>

/* what a call costs this program, where it would cost any other usual_ns */
u64 tt_cost_of_call(u64 usual_ns, u64 bytes);

/* a call has been charged */
void tt_note_call(u64 cost_ns, u64 bytes);

#endif
