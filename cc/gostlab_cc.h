/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/*
 * What a congestion control can tell the lab of its own state. Compiled elsewhere it comes to
 * nothing, so a file that uses it is still an ordinary one: keep this header beside it.
 *
 *	GOSTLAB_SHOW(sk, "bw_bps inflight_hi_pkts phase=STARTUP|DRAIN|CRUISE", bw, inflight_hi, phase);
 *
 * Names first, in one string, then as many integers. `name=A|B|C` gives a value its words: 0 is A,
 * 1 is B. Called from get_info() it is written once for every sample of the socket. Called at an
 * ACK it should ask gostlab_every_ack first, which is true in runs that have `acks: on`. Both stand
 * in cc_state.jsonl.gz.
 */
#ifndef GOSTLAB_CC_H
#define GOSTLAB_CC_H

#include <linux/types.h>
#include <linux/version.h>
#include <net/sock.h>
#include <net/tcp.h>

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

/*
 * For older kernels (./lab kernel), which have some of this in another shape. Below the functions
 * stand
 *
 *	GOSTLAB_CONG_CONTROL(my_cong_control)	(sk, ack, flag, rs); before 6.10 ack and flag are 0
 *	GOSTLAB_TX_START(my_restart)		(sk)
 *
 * and in the struct tcp_congestion_ops `.cong_control = GOSTLAB_HOOK(my_cong_control),` and
 * `GOSTLAB_ON_TX_START(my_restart),`.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 19, 0)
static inline u32 tcp_snd_cwnd(const struct tcp_sock *tp)
{
	return tp->snd_cwnd;
}

static inline void tcp_snd_cwnd_set(struct tcp_sock *tp, u32 cwnd)
{
	tp->snd_cwnd = cwnd;
}
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)
#define GOSTLAB_CONG_CONTROL(function)                                                 \
	static void function##_hook(struct sock *sk, const struct rate_sample *rs)     \
	{                                                                              \
		function(sk, 0, 0, rs);                                                \
	}
#define GOSTLAB_HOOK(function) function##_hook
#else
#define GOSTLAB_CONG_CONTROL(function)
#define GOSTLAB_HOOK(function) function
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 0, 0)
#define GOSTLAB_TX_START(function)                                                     \
	static void function##_event(struct sock *sk, enum tcp_ca_event event)         \
	{                                                                              \
		if (event == CA_EVENT_TX_START)                                        \
			function(sk);                                                  \
	}
#define GOSTLAB_ON_TX_START(function) .cwnd_event = function##_event
#else
#define GOSTLAB_TX_START(function)
#define GOSTLAB_ON_TX_START(function) .cwnd_event_tx_start = function
#endif

#endif
