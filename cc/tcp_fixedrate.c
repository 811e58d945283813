// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * A sender that paces at a set rate whatever is lost: what tunnels do that call themselves brutal.
 * It is here to be measured beside others, and for nothing else: it takes its rate from everybody
 * on the path.
 *
 *	cc: "fixedrate(rate_kbit=50000)"
 *
 * TCP's own pacing has the rate, of payload. The window never holds it back: `window` hundredths of
 * what the rate sends in a smoothed round trip. No loss, timeout or mark changes either. With
 * compensate=1 it sends the faster the more is lost, as Hysteria's Brutal is described: by the
 * share of packets that arrived in the last 5 s, taken as 80 % at the least. Until the first round
 * trip is known the window is RFC 6928's.
 */
#include <linux/module.h>
#include <linux/math64.h>
#include <net/tcp.h>

#include "gostlab_cc.h"

#define LEAST_WINDOW 10U /* RFC 6928, packets */
#define SPAN_US (5 * USEC_PER_SEC)
#define LEAST_ARRIVED 80U /* percent */

static int rate_kbit = 10000;
module_param(rate_kbit, int, 0444);
MODULE_PARM_DESC(rate_kbit, "payload, kbit/s");
static int window = 200;
module_param(window, int, 0444);
MODULE_PARM_DESC(window, "percent of what the rate sends in a round trip");
static int compensate;
module_param(compensate, int, 0444);
MODULE_PARM_DESC(compensate, "1: send faster by what is lost, up to a fifth of all");

struct fixed {
	u64 since_us; /* the span that is being counted */
	u32 delivered; /* at its begin, packets */
	u32 lost;
	u32 arrived; /* percent, of the last span */
};

static u64 bytes_per_s(const struct sock *sk)
{
	const struct fixed *fixed = inet_csk_ca(sk);
	u64 rate = (u64)max(rate_kbit, 1) * 125;

	return compensate ? div_u64(rate * 100, fixed->arrived) : rate;
}

static void count(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fixed *fixed = inet_csk_ca(sk);
	u32 delivered = tp->delivered - fixed->delivered, lost = tp->lost - fixed->lost;

	if (tp->tcp_mstamp - fixed->since_us < SPAN_US)
		return;
	if (delivered + lost)
		fixed->arrived = max(LEAST_ARRIVED, (u32)div_u64(100ULL * delivered, delivered + lost));
	fixed->since_us = tp->tcp_mstamp;
	fixed->delivered = tp->delivered;
	fixed->lost = tp->lost;
}

static void apply(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 rate = bytes_per_s(sk), bytes;
	u32 packets = LEAST_WINDOW;

	WRITE_ONCE(sk->sk_pacing_rate, rate);
	if (tp->srtt_us) {
		bytes = div_u64(div_u64(rate * (tp->srtt_us >> 3), USEC_PER_SEC) * max(window, 100), 100);
		packets = max_t(u32, LEAST_WINDOW, div_u64(bytes, tp->mss_cache) + 1);
	}
	tcp_snd_cwnd_set(tp, min(packets, tp->snd_cwnd_clamp));
}

static void fixed_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct fixed *fixed = inet_csk_ca(sk);

	fixed->since_us = tp->tcp_mstamp;
	fixed->delivered = tp->delivered;
	fixed->lost = tp->lost;
	fixed->arrived = 100;
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	apply(sk);
}

/* An ACK. */
static void fixed_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	count(sk);
	apply(sk);
	if (gostlab_every_ack)
		GOSTLAB_SHOW(sk, "cwnd_pkts arrived_percent", tcp_snd_cwnd(tcp_sk(sk)),
			     ((struct fixed *)inet_csk_ca(sk))->arrived);
}

/* A loss takes nothing. */
static u32 fixed_ssthresh(struct sock *sk)
{
	return TCP_INFINITE_SSTHRESH;
}

static u32 fixed_undo_cwnd(struct sock *sk)
{
	return tcp_snd_cwnd(tcp_sk(sk));
}

GOSTLAB_CONG_CONTROL(fixed_cong_control)

static struct tcp_congestion_ops fixedrate __read_mostly = {
	.name = "fixedrate",
	.owner = THIS_MODULE,
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = fixed_init,
	.cong_control = GOSTLAB_HOOK(fixed_cong_control),
	.ssthresh = fixed_ssthresh,
	.undo_cwnd = fixed_undo_cwnd,
};

static int __init fixedrate_register(void)
{
	BUILD_BUG_ON(sizeof(struct fixed) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&fixedrate);
}
module_init(fixedrate_register);

static void __exit fixedrate_unregister(void)
{
	tcp_unregister_congestion_control(&fixedrate);
}
module_exit(fixedrate_unregister);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("Paces at a set rate whatever is lost");
