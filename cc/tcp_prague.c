// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * TCP Prague, written for gostlab from the text of draft-briscoe-iccrg-prague-congestion-control-04
 * (De Schepper, Tilmans, Briscoe, Goel; 24 July 2024), RFC 9331 and RFC 9768, and from Linux's
 * public interfaces alone. It answers the share of packets that carry a CE mark, and not the fact
 * that one does: a queue that marks at 1 ms keeps its wait there, and its link full.
 *
 *  - Accurate ECN (RFC 9768) and ECT(1) on all packets. Linux has the feedback since 7.0, and
 *    counts the marks that each ACK reports; it asks for ECT(1) on the first packets alone, so the
 *    rest is made here, where a packet leaves (`send_ect1`).
 *  - alpha, a moving average of the share of marks, weight 1/16, once per virtual round trip. The
 *    first mark makes it 1.
 *  - A mark takes alpha/2 of the window, at most once per virtual round trip.
 *  - Each packet that was acknowledged without a mark adds its part of `increase` packets per round
 *    trip, in rounds with marks as well.
 *  - A loss takes half of the window, once per recovery, and counts what marks took of it within
 *    the last virtual round trip. Then it is Reno.
 *  - The virtual round trip is at least 25 ms: a flow of a shorter one grows as one of 25 ms would.
 *    It holds after 500 round trips; before, the virtual one is the real one.
 *  - Packets are paced at the window per round trip, at twice that in slow start, in bursts of
 *    0.25 ms at most.
 *
 * Decisions, where the draft leaves one open:
 *  1. The 500 round trips are counted in time: 500 smoothed ones after the handshake, and slow
 *     start is over.
 *  2. One clock for alpha and for cuts: both are once per virtual round trip.
 *  3. The window is kept in 2^-20 packets, and is two packets at the least. What is sent is its
 *     whole part; the pacing has the rest.
 *  4. Without accurate ECN the flow sends no ECT, and is Reno at its own round trip (RFC 9331,
 *     4.3); its socket then says `prague-reno`. So it is on kernels before 7.0, always.
 *  5. After idling for longer than a retransmission timeout the window is halved for each timeout
 *     that has passed, down to the initial window (RFC 5681, 4.1). Linux does so itself, by
 *     tcp_cwnd_restart(), but only for controls without a cong_control(); its sysctl
 *     net.ipv4.tcp_slow_start_after_idle holds here too.
 *
 * Left out: windows of less than two packets; the detection of queues that mark as RFC 3168 has it
 * (the draft has it off); CUBIC in place of Reno after a loss, which the draft allows; what the
 * draft's section of future work has.
 */
#include <linux/module.h>
#include <linux/math64.h>
#include <net/inet_ecn.h>
#include <net/tcp.h>

#include "gostlab_cc.h"

#define ONE_SHIFT 20
#define ONE (1U << ONE_SHIFT)
#define LEAST_WINDOW 2U /* packets */
#define ALPHA_WEIGHT 4 /* 2^-4 */
#define BURST_SHIFT 12 /* 2^-12 s */

static unsigned int virtual_rtt_us = 25000;
module_param(virtual_rtt_us, uint, 0444);
MODULE_PARM_DESC(virtual_rtt_us, "the least virtual round trip; 0: the real one");
static unsigned int depend_rounds = 500;
module_param(depend_rounds, uint, 0444);
MODULE_PARM_DESC(depend_rounds, "round trips before the virtual one holds");

struct prague {
	u64 window; /* packets, 2^-20 */
	u64 window_before_marks; /* at the newest cut for marks */
	u64 window_before_loss; /* for an undo */
	u64 began_us;
	u64 cut_us; /* when a mark last cut the window; 0: never */
	u64 round_us; /* when the round began of which the share of marks is counted */
	u32 round_delivered; /* what was delivered then, and how much of it marked */
	u32 round_marked;
	u32 marked; /* at the last ACK */
	u32 alpha; /* 2^-20 */
	bool accurate;
	bool has_marks;
	bool is_virtual; /* whether the virtual round trip holds */
};

static struct prague *prague_of(const struct sock *sk)
{
	return inet_csk_ca(sk);
}

static u64 now_us(const struct sock *sk)
{
	return tcp_sk(sk)->tcp_mstamp;
}

static u32 rtt_us(const struct sock *sk)
{
	return max(tcp_sk(sk)->srtt_us >> 3, 1U);
}

static u32 virtual_rtt(const struct sock *sk)
{
	return prague_of(sk)->is_virtual ? max(rtt_us(sk), virtual_rtt_us) : rtt_us(sk);
}

/* Packets per round trip, 2^-20: what one per virtual round trip is to a flow of this rate. */
static u32 increase(const struct sock *sk)
{
	u64 ratio = div_u64((u64)rtt_us(sk) << ONE_SHIFT, virtual_rtt(sk));

	return ratio * ratio >> ONE_SHIFT;
}

/* -- ECT(1) */

#ifdef TCP_CONG_NEEDS_ACCECN
#define PRAGUE_FLAGS (TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN | TCP_CONG_NEEDS_ACCECN | \
		      TCP_CONG_ECT_1_NEGOTIATION | TCP_CONG_NO_FALLBACK_RFC3168)

/*
 * A connection's way to IP, with ECT(1) where TCP has just written ECT(0): one for sockets of IPv4,
 * one for those of IPv6 that talk to IPv4. Others keep ECT(0), and with it no L4S.
 */
static struct inet_connection_sock_af_ops ect1_ops[2];
static const struct inet_connection_sock_af_ops *ect0_ops[2];
static DEFINE_SPINLOCK(ops_lock);

static int send_ect1(struct sock *sk, struct sk_buff *skb, struct flowi *flow)
{
	if (inet_sk(sk)->tos & INET_ECN_MASK)
		__INET_ECN_xmit(sk, true);
	return ip_queue_xmit(sk, skb, flow);
}

static void begin_ect1(struct sock *sk)
{
	const struct inet_connection_sock_af_ops *now = inet_csk(sk)->icsk_af_ops;
	int i;

	if (now->queue_xmit != ip_queue_xmit)
		return;
	spin_lock_bh(&ops_lock);
	for (i = 0; i < ARRAY_SIZE(ect1_ops); i++) {
		if (!ect0_ops[i]) {
			ect1_ops[i] = *now;
			ect1_ops[i].queue_xmit = send_ect1;
			ect0_ops[i] = now;
		}
		if (ect0_ops[i] == now) {
			inet_csk(sk)->icsk_af_ops = &ect1_ops[i];
			break;
		}
	}
	spin_unlock_bh(&ops_lock);
}

static void end_ect1(struct sock *sk)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(ect1_ops); i++)
		if (inet_csk(sk)->icsk_af_ops == &ect1_ops[i])
			inet_csk(sk)->icsk_af_ops = ect0_ops[i];
}

static bool has_accurate_ecn(const struct sock *sk)
{
	return tcp_ecn_mode_accecn(tcp_sk(sk));
}
#else
#define PRAGUE_FLAGS TCP_CONG_NON_RESTRICTED
static void begin_ect1(struct sock *sk) { }
static void end_ect1(struct sock *sk) { }
static bool has_accurate_ecn(const struct sock *sk) { return false; }
#endif

/* -- the window */

static void set_window(struct sock *sk, u64 window)
{
	struct tcp_sock *tp = tcp_sk(sk);

	window = min_t(u64, window, (u64)tp->snd_cwnd_clamp << ONE_SHIFT);
	prague_of(sk)->window = max_t(u64, window, (u64)LEAST_WINDOW << ONE_SHIFT);
}

/* The window is what Linux has made of it: after a timeout, an undo, or a start. */
static void take_window(struct sock *sk)
{
	prague_of(sk)->window = (u64)tcp_snd_cwnd(tcp_sk(sk)) << ONE_SHIFT;
}

static void set_threshold(struct sock *sk)
{
	tcp_sk(sk)->snd_ssthresh = prague_of(sk)->window >> ONE_SHIFT;
}

static void cut_for_marks(struct sock *sk)
{
	struct prague *prague = prague_of(sk);

	if (prague->cut_us && now_us(sk) - prague->cut_us < virtual_rtt(sk))
		return;
	prague->cut_us = now_us(sk);
	prague->window_before_marks = prague->window;
	set_window(sk, prague->window - (prague->window * prague->alpha >> (ONE_SHIFT + 1)));
	set_threshold(sk);
}

static void cut_for_loss(struct sock *sk)
{
	struct prague *prague = prague_of(sk);
	u64 before = prague->window;

	prague->window_before_loss = before;
	if (prague->cut_us && now_us(sk) - prague->cut_us < virtual_rtt(sk))
		before = max(before, prague->window_before_marks);
	set_window(sk, min(prague->window, before / 2));
	set_threshold(sk);
}

/* At an ACK of `acked` packets without a mark. */
static void grow(struct sock *sk, u32 acked)
{
	struct prague *prague = prague_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u64 more;

	if (tcp_in_slow_start(tp))
		more = (u64)acked << ONE_SHIFT;
	else
		more = div64_u64((u64)acked * increase(sk) << ONE_SHIFT, prague->window);
	set_window(sk, prague->window + more);
}

static void update_alpha(struct sock *sk)
{
	struct prague *prague = prague_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 delivered = tp->delivered - prague->round_delivered, share;

	if (now_us(sk) - prague->round_us < virtual_rtt(sk) || !delivered)
		return;
	share = min_t(u64, div_u64((u64)(tp->delivered_ce - prague->round_marked) << ONE_SHIFT,
				   delivered), ONE);
	if (prague->has_marks)
		prague->alpha += ((s32)share - (s32)prague->alpha) / (1 << ALPHA_WEIGHT);
	prague->round_us = now_us(sk);
	prague->round_delivered = tp->delivered;
	prague->round_marked = tp->delivered_ce;
	if (!tcp_in_slow_start(tp) &&
	    now_us(sk) - prague->began_us > (u64)depend_rounds * rtt_us(sk))
		prague->is_virtual = prague->accurate;
}

static void set_pacing_rate(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 rate = (prague_of(sk)->window >> 4) * tp->mss_cache;

	if (tcp_in_slow_start(tp))
		rate *= 2;
	/* Before the first sample a round trip is 1 ms, as Linux has it elsewhere. */
	rate = div_u64(rate, tp->srtt_us ? rtt_us(sk) : USEC_PER_MSEC);
	rate = mul_u64_u32_shr(rate, USEC_PER_SEC, ONE_SHIFT - 4);
	WRITE_ONCE(sk->sk_pacing_rate, min_t(u64, rate, READ_ONCE(sk->sk_max_pacing_rate)));
}

/* On sending with nothing in flight: decision 5. */
static void restart_after_idle(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u64 window = prague_of(sk)->window;
	u64 restart_window = min(window, (u64)TCP_INIT_CWND << ONE_SHIFT);
	s32 idle = tcp_jiffies32 - tp->lsndtime, rto = inet_csk(sk)->icsk_rto;

	/* With packets out it is a retransmission. */
	if (tp->packets_out || idle <= rto ||
	    !READ_ONCE(sock_net(sk)->ipv4.sysctl_tcp_slow_start_after_idle))
		return;
	tp->snd_ssthresh = tcp_current_ssthresh(sk);
	while ((idle -= rto) > 0 && window > restart_window)
		window >>= 1;
	set_window(sk, max(window, restart_window));
	tcp_snd_cwnd_set(tp, prague_of(sk)->window >> ONE_SHIFT);
	set_pacing_rate(sk);
}

static void show(struct sock *sk)
{
	const struct prague *prague = prague_of(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	GOSTLAB_SHOW(sk,
		     "mode=RENO|L4S alpha_ppm window_milli ssthresh_pkts increase_ppm rtt_us"
		     " virtual_rtt_us delivered_pkts marked_pkts lost_pkts pacing_bps ca_state",
		     prague->accurate, (u64)prague->alpha * 1000000 >> ONE_SHIFT,
		     prague->window * 1000 >> ONE_SHIFT,
		     tp->snd_ssthresh >= TCP_INFINITE_SSTHRESH ? -1 : (s64)tp->snd_ssthresh,
		     (u64)increase(sk) * 1000000 >> ONE_SHIFT, rtt_us(sk), virtual_rtt(sk),
		     tp->delivered, tp->delivered_ce, tp->lost, (s64)sk->sk_pacing_rate * 8,
		     inet_csk(sk)->icsk_ca_state);
}

/* An ACK. */
static void prague_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct prague *prague = prague_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);
	u32 acked = max(rs->acked_sacked, 0), marks = tp->delivered_ce - prague->marked;

	if (!prague->window) /* the SYN's own ACK, which comes before init */
		return;
	prague->marked = tp->delivered_ce;
	if (!prague->accurate)
		marks = 0;
	if (marks && !prague->has_marks) {
		prague->has_marks = true;
		prague->alpha = ONE;
	}
	update_alpha(sk);
	if (inet_csk(sk)->icsk_ca_state != TCP_CA_Recovery) {
		if (acked > marks && tcp_is_cwnd_limited(sk))
			grow(sk, acked - marks);
		if (marks)
			cut_for_marks(sk);
	}
	tcp_snd_cwnd_set(tp, prague->window >> ONE_SHIFT);
	set_pacing_rate(sk);
	if (gostlab_every_ack)
		show(sk);
}

/* Linux enters CWR, Recovery or Loss: what that takes is decided in prague_set_state. */
static u32 prague_ssthresh(struct sock *sk)
{
	return tcp_sk(sk)->snd_ssthresh;
}

static void prague_set_state(struct sock *sk, u8 state)
{
	u8 before = inet_csk(sk)->icsk_ca_state;

	if (state == TCP_CA_Recovery && before < TCP_CA_Recovery) {
		cut_for_loss(sk);
	} else if (state == TCP_CA_Loss && before != TCP_CA_Loss) {
		if (before < TCP_CA_Recovery)
			cut_for_loss(sk);
		take_window(sk);
	}
}

/* The loss was none. */
static u32 prague_undo_cwnd(struct sock *sk)
{
	struct prague *prague = prague_of(sk);

	set_window(sk, max(prague->window, prague->window_before_loss));
	return prague->window >> ONE_SHIFT;
}

static size_t prague_get_info(struct sock *sk, u32 extensions, int *attribute,
			      union tcp_cc_info *info)
{
	if (!gostlab_every_ack)
		show(sk);
	return 0;
}

/* The same without a wish for ECN, which Linux would go on to write on every packet. */
static struct tcp_congestion_ops prague_reno __read_mostly;

static void prague_init(struct sock *sk)
{
	struct prague *prague = prague_of(sk);
	struct tcp_sock *tp = tcp_sk(sk);

	memset(prague, 0, sizeof(*prague));
	prague->began_us = prague->round_us = now_us(sk);
	prague->round_delivered = tp->delivered;
	prague->round_marked = prague->marked = tp->delivered_ce;
	prague->accurate = has_accurate_ecn(sk);
	take_window(sk);
	if (prague->accurate)
		begin_ect1(sk);
	else
		inet_csk(sk)->icsk_ca_ops = &prague_reno;
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
	WRITE_ONCE(sk->sk_pacing_shift, BURST_SHIFT);
	set_pacing_rate(sk);
}

static void prague_release(struct sock *sk)
{
	end_ect1(sk);
	WRITE_ONCE(sk->sk_pacing_shift, 10);
}

/* A packet at a time, where the burst has no room for more. */
static u32 prague_min_tso_segs(struct sock *sk)
{
	return 1;
}

GOSTLAB_CONG_CONTROL(prague_cong_control)
GOSTLAB_TX_START(restart_after_idle)

static struct tcp_congestion_ops prague __read_mostly = {
	.name = "prague",
	.owner = THIS_MODULE,
	.flags = PRAGUE_FLAGS,
	.init = prague_init,
	.release = prague_release,
	.cong_control = GOSTLAB_HOOK(prague_cong_control),
	GOSTLAB_ON_TX_START(restart_after_idle),
	.ssthresh = prague_ssthresh,
	.set_state = prague_set_state,
	.undo_cwnd = prague_undo_cwnd,
	.min_tso_segs = prague_min_tso_segs,
	.get_info = prague_get_info,
};

static int __init prague_register(void)
{
	BUILD_BUG_ON(sizeof(struct prague) > ICSK_CA_PRIV_SIZE);
	prague_reno = prague;
	prague_reno.flags = TCP_CONG_NON_RESTRICTED;
	strscpy(prague_reno.name, "prague-reno", TCP_CA_NAME_MAX);
	return tcp_register_congestion_control(&prague);
}
module_init(prague_register);

static void __exit prague_unregister(void)
{
	tcp_unregister_congestion_control(&prague);
}
module_exit(prague_unregister);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("TCP Prague: answers the share of marks");
