/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What a congestion control can tell the lab of its own state. Compiled elsewhere it comes to nothing, so a
 * file that uses it is still an ordinary one: keep this header beside it.
 *
 *	GOSTLAB_SHOW(sk, "bw_bps inflight_hi_pkts phase=STARTUP|DRAIN|CRUISE", bw, inflight_hi, phase);
 *
 * Names first, in one string, then as many integers. `name=A|B|C` gives a value its words: 0 is A, 1 is B.
 * Called from get_info() it is written once for every sample of the socket. Called at an ACK it should ask
 * gostlab_every_ack first, which is true in runs that have `acks: on`. Both stand in cc_state.jsonl.gz.
 */
#ifndef GOSTLAB_CC_H
#define GOSTLAB_CC_H

#include <linux/types.h>
#include <net/sock.h>

#define GOSTLAB_MOST_VALUES 40

#ifdef GOSTLAB
extern bool gostlab_watched;
extern bool gostlab_every_ack;
void gostlab_show(const struct sock *sk, const char *names, const s64 *values, unsigned int count);

#define GOSTLAB_SHOW(sk, names, ...)                                                   \
	do {                                                                           \
		if (gostlab_watched) {                                                 \
			const s64 gostlab_values[] = { __VA_ARGS__ };                  \
			static_assert(ARRAY_SIZE(gostlab_values) <= GOSTLAB_MOST_VALUES); \
			gostlab_show(sk, names, gostlab_values, ARRAY_SIZE(gostlab_values)); \
		}                                                                      \
	} while (0)
#else
#define gostlab_every_ack false
#define GOSTLAB_SHOW(sk, names, ...) do { } while (0)
#endif

#endif
