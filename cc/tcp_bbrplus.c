// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * BBRplus, written for gostlab from public descriptions: BBRv1 as in
 * draft-cardwell-iccrg-bbr-congestion- control-00 (2017; "v1" below, with its sections), and what
 * is known of the change that was published under this name in 2018 for Linux 4.14. Two things
 * differ from the BBRv1 of that kernel:
 *
 *  1. Drain to target, and cycles of random length, in place of eight phases. A cycle of ProbeBW
 *     lasts 2 to 8 min_rtt, drawn anew each time. UP (1.25) lasts at least one min_rtt, and ends
 *     when 1.25 BDP were in flight, something was lost, or there is nothing to send or no window
 *     for it. DOWN (0.75) lasts until no more than the BDP is in flight. CRUISE (1.0) is the rest
 *     of the cycle.
 *  2. extra_acked: the most that ACKs ran ahead of the model in the last 10 to 20 rounds is added
 *     to the window, after Startup; at most 100 ms of the rate.
 *
 * As in that kernel: Startup and Drain at 2.885 and its inverse, window gain 2, max_bw over 10
 * rounds, min_rtt over 10 s, ProbeRTT at 4 packets for 200 ms every 10 s, a budget of three bursts
 * on top of the BDP, even windows, packet conservation in the first round of recovery, no margin
 * under the rate, and the detection of policers: two intervals of 4 to 16 rounds in a row with 20 %
 * loss and rates within 1/8 (or 4 kbit/s) pace at their mean for 48 rounds.
 *
 * Decisions: ProbeBW begins with CRUISE, as Drain has just emptied the queue. Pacing is TCP's own,
 * where 4.14 would do that too. The state is allocated; without memory the connection is Reno.
 *
 * Volumes are in packets, times in µs, rates in 2^-24 packets per µs, gains in 1/256.
 */
#include <linux/module.h>
#include <linux/random.h>
#include <linux/win_minmax.h>
#include <linux/inet_diag.h>
#include <net/tcp.h>

#include "gostlab_cc.h"

#define BW_SHIFT 24
#define UNIT 256
#define HIGH_GAIN (UNIT * 2885 / 1000 + 1) /* v1 4.3.2.1: 2/ln 2 */
#define DRAIN_GAIN (UNIT * 1000 / 2885)
#define UP_GAIN (UNIT * 5 / 4)
#define DOWN_GAIN (UNIT * 3 / 4)
#define WINDOW_GAIN (UNIT * 2)
#define MIN_CWND 4U
#define BW_ROUNDS 10
#define MIN_RTT_FILTER_US (10 * USEC_PER_SEC)
#define PROBE_RTT_US (200 * USEC_PER_MSEC)
#define LONGEST_CYCLE 8U /* min_rtt */
#define RANDOM_CYCLES 7U /* 8 − 0..6 */
#define EXTRA_ACKED_ROUNDS 10U /* of each of two windows */
#define EXTRA_ACKED_US (100 * USEC_PER_MSEC)
#define POLICER_LEAST_ROUNDS 4U
#define POLICER_MOST_ROUNDS (4U * POLICER_LEAST_ROUNDS)
#define POLICED_ROUNDS 48U

enum state { STARTUP, DRAIN, UP, DOWN, CRUISE, PROBE_RTT };
#define STATE_WORDS "STARTUP|DRAIN|UP|DOWN|CRUISE|PROBE_RTT"

struct plus {
	enum state state;
	u32 round_count;
	u32 next_round_delivered;
	bool round_start;
	bool idle_restart;
	bool has_seen_rtt;

	struct minmax bw_filter;
	u32 min_rtt_us;
	u64 min_rtt_stamp;

	u64 full_bw;
	u8 full_bw_count;
	bool full_bw_reached;

	u64 cycle_stamp;
	u32 cycle_length; /* min_rtt */

	u64 probe_rtt_done_stamp;
	bool probe_rtt_round_done;

	u8 prev_ca_state;
	bool packet_conservation;
	u32 prior_cwnd;

	u64 ack_epoch_stamp;
	u32 ack_epoch_acked;
	u32 extra_acked[2];
	u32 extra_acked_rounds;
	u8 extra_acked_slot;

	/* policers */
	bool policer_sampling;
	bool policed;
	u32 policer_rounds;
	u32 policer_delivered;
	u32 policer_lost;
	u64 policer_stamp;
	u64 policer_bw;
};

static struct plus *plus_of(const struct sock *sk)
{
	return *(struct plus **)inet_csk_ca(sk);
}

static u64 now_us(const struct sock *sk)
{
	return tcp_sk(sk)->tcp_mstamp;
}

/* v1 4.1.1.3: BtlBw; a policer's where one was found */
static u64 bw_of(const struct plus *plus)
{
	return plus->policed ? plus->policer_bw : minmax_get(&plus->bw_filter);
}

static bool is_in_probe_bw(const struct plus *plus)
{
	return plus->state >= UP && plus->state <= CRUISE;
}

static u32 pacing_gain(const struct plus *plus)
{
	switch (plus->state) {
	case STARTUP:
		return HIGH_GAIN;
	case DRAIN:
		return DRAIN_GAIN;
	case UP:
		return plus->policed ? UNIT : UP_GAIN;
	case DOWN:
		return plus->policed ? UNIT : DOWN_GAIN;
	default:
		return UNIT;
	}
}

static u32 cwnd_gain(const struct plus *plus)
{
	if (plus->state == STARTUP || plus->state == DRAIN)
		return HIGH_GAIN;
	return plus->state == PROBE_RTT ? UNIT : WINDOW_GAIN;
}

static u64 bytes_per_s(const struct sock *sk, u64 bw, u32 gain)
{
	u64 rate = mul_u64_u32_shr(bw * tcp_sk(sk)->mss_cache, gain, 8);

	return mul_u64_u32_shr(rate, USEC_PER_SEC, BW_SHIFT);
}

static void set_rate(struct sock *sk, u64 rate)
{
	WRITE_ONCE(sk->sk_pacing_rate,
		   min_t(unsigned long, rate, READ_ONCE(sk->sk_max_pacing_rate)));
}

/* v1 4.2.1: the first rate, of the first window and round trip */
static void init_pacing_rate(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct plus *plus = plus_of(sk);
	u32 rtt_us = tp->srtt_us ? max(tp->srtt_us >> 3, 1U) : USEC_PER_MSEC;

	plus->has_seen_rtt = tp->srtt_us != 0;
	set_rate(sk, bytes_per_s(sk, div_u64((u64)tcp_snd_cwnd(tp) << BW_SHIFT, rtt_us), HIGH_GAIN));
}

/* v1 4.2.1: once the pipe was full by any gain, before only upwards */
static void set_pacing_rate(struct sock *sk, u32 gain)
{
	struct plus *plus = plus_of(sk);
	u64 rate = bytes_per_s(sk, bw_of(plus), gain);

	if (!plus->has_seen_rtt && tcp_sk(sk)->srtt_us)
		init_pacing_rate(sk);
	if (rate && (plus->full_bw_reached || rate > READ_ONCE(sk->sk_pacing_rate)))
		set_rate(sk, rate);
}

/* v1 4.2.2: what is sent at once, packets */
static u32 send_quantum(const struct sock *sk)
{
	u64 rate = READ_ONCE(sk->sk_pacing_rate);
	u32 least = rate < 150000 ? 1 : 2;

	return min_t(u32, max_t(u32, (u32)(rate >> 10) / tcp_sk(sk)->mss_cache, least), 127);
}

/* v1 4.2.3.2: gain · BDP and three bursts, even */
static u32 target_of(const struct sock *sk, u64 bw, u32 gain)
{
	const struct plus *plus = plus_of(sk);
	u64 volume;

	if (plus->min_rtt_us == ~0U)
		return TCP_INIT_CWND;
	volume = mul_u64_u32_shr(bw * plus->min_rtt_us, gain, 8);
	volume = (volume + (1ULL << BW_SHIFT) - 1) >> BW_SHIFT;
	return (min_t(u64, volume, ~0U / 4) + 3 * send_quantum(sk) + 1) & ~1U;
}

/* What ACKs ran ahead by, of late (point 2) */
static u32 extra_acked_of(const struct plus *plus)
{
	u64 most = (bw_of(plus) * EXTRA_ACKED_US) >> BW_SHIFT;

	if (!plus->full_bw_reached)
		return 0;
	return min_t(u64, max(plus->extra_acked[0], plus->extra_acked[1]), most);
}

static void update_extra_acked(struct sock *sk, const struct rate_sample *rs)
{
	struct plus *plus = plus_of(sk);
	u64 expected;
	u32 extra;

	if (plus->round_start && ++plus->extra_acked_rounds >= EXTRA_ACKED_ROUNDS) {
		plus->extra_acked_rounds = 0;
		plus->extra_acked_slot ^= 1;
		plus->extra_acked[plus->extra_acked_slot] = 0;
	}
	expected = (bw_of(plus) * (now_us(sk) - plus->ack_epoch_stamp)) >> BW_SHIFT;
	if (plus->ack_epoch_acked <= expected) {
		plus->ack_epoch_acked = 0;
		plus->ack_epoch_stamp = now_us(sk);
		expected = 0;
	}
	plus->ack_epoch_acked += max(rs->acked_sacked, 0);
	extra = min_t(u64, plus->ack_epoch_acked - expected, tcp_snd_cwnd(tcp_sk(sk)));
	plus->extra_acked[plus->extra_acked_slot] =
		max(plus->extra_acked[plus->extra_acked_slot], extra);
}

/* -- policers -- */

static void policer_begin(struct sock *sk)
{
	struct plus *plus = plus_of(sk);

	plus->policer_stamp = now_us(sk);
	plus->policer_delivered = tcp_sk(sk)->delivered;
	plus->policer_lost = tcp_sk(sk)->lost;
	plus->policer_rounds = 0;
}

static void policer_forget(struct sock *sk)
{
	struct plus *plus = plus_of(sk);

	plus->policer_bw = 0;
	plus->policed = false;
	plus->policer_sampling = false;
	policer_begin(sk);
}

static void policer_found(struct sock *sk, u64 bw)
{
	struct plus *plus = plus_of(sk);
	u64 apart = max(bw, plus->policer_bw) - min(bw, plus->policer_bw);

	if (plus->policer_bw &&
	    (apart * 8 <= plus->policer_bw || bytes_per_s(sk, apart, UNIT) <= 4000 / 8)) {
		plus->policer_bw = (bw + plus->policer_bw) / 2;
		plus->policed = true;
		plus->policer_rounds = 0;
		return;
	}
	plus->policer_bw = bw;
	policer_begin(sk);
}

static void watch_for_policer(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct plus *plus = plus_of(sk);
	u32 lost, delivered;
	u64 took_us;

	if (plus->policed) {
		if (is_in_probe_bw(plus) && plus->round_start &&
		    ++plus->policer_rounds >= POLICED_ROUNDS)
			policer_forget(sk);
		return;
	}
	if (!plus->policer_sampling) {
		if (!rs->losses)
			return;
		policer_begin(sk);
		plus->policer_sampling = true;
	}
	if (rs->is_app_limited) {
		policer_forget(sk);
		return;
	}
	plus->policer_rounds += plus->round_start;
	if (plus->policer_rounds < POLICER_LEAST_ROUNDS)
		return;
	if (plus->policer_rounds > POLICER_MOST_ROUNDS) {
		policer_forget(sk);
		return;
	}
	lost = tp->lost - plus->policer_lost;
	delivered = tp->delivered - plus->policer_delivered;
	if (!rs->losses || !delivered || (u64)lost * 5 < delivered)
		return;
	took_us = now_us(sk) - plus->policer_stamp;
	if (took_us < USEC_PER_MSEC)
		return;
	policer_found(sk, div64_u64((u64)delivered << BW_SHIFT, took_us));
}

/* -- the model -- */

/* v1 4.1.1: rounds and BtlBw */
static void update_bw(struct sock *sk, const struct rate_sample *rs)
{
	struct plus *plus = plus_of(sk);
	u64 bw;

	plus->round_start = !before(rs->prior_delivered, plus->next_round_delivered);
	if (plus->round_start) {
		plus->next_round_delivered = tcp_sk(sk)->delivered;
		plus->round_count++;
		plus->packet_conservation = false;
	}
	watch_for_policer(sk, rs);
	bw = div_u64((u64)rs->delivered << BW_SHIFT, rs->interval_us);
	if (!rs->is_app_limited || bw >= minmax_get(&plus->bw_filter))
		minmax_running_max(&plus->bw_filter, BW_ROUNDS, plus->round_count,
				   min_t(u64, bw, ~0U));
}

/* v1 4.3.2.2: whether the rate has stopped growing */
static void check_full_bw(struct plus *plus, const struct rate_sample *rs)
{
	u64 bw = minmax_get(&plus->bw_filter);

	if (plus->full_bw_reached || !plus->round_start || rs->is_app_limited)
		return;
	if (bw * 4 >= plus->full_bw * 5) {
		plus->full_bw = bw;
		plus->full_bw_count = 0;
		return;
	}
	plus->full_bw_reached = ++plus->full_bw_count >= 3;
}

/* Point 1: a new cycle, of another length */
static void start_cycle(struct sock *sk, enum state state)
{
	struct plus *plus = plus_of(sk);
	u32 random = ((u64)get_random_u32() * RANDOM_CYCLES) >> 32;

	plus->cycle_length = LONGEST_CYCLE - random;
	plus->cycle_stamp = now_us(sk);
	plus->state = state;
}

/* v1 4.3.3: Drain ends when no queue is left */
static void check_drain(struct sock *sk)
{
	struct plus *plus = plus_of(sk);

	if (plus->state == STARTUP && plus->full_bw_reached)
		plus->state = DRAIN;
	if (plus->state == DRAIN &&
	    tcp_packets_in_flight(tcp_sk(sk)) <= target_of(sk, bw_of(plus), UNIT))
		start_cycle(sk, CRUISE);
}

static bool has_nothing_to_send(const struct sock *sk, const struct rate_sample *rs)
{
	const struct tcp_sock *tp = tcp_sk(sk);
	const struct sk_buff *head = tcp_send_head(sk);

	return rs->is_app_limited || !head ||
	       after(TCP_SKB_CB(head)->end_seq, tcp_wnd_end(tp));
}

/* Point 1: the cycle's phases */
static void update_cycle(struct sock *sk, const struct rate_sample *rs)
{
	struct plus *plus = plus_of(sk);
	u64 spent_us = now_us(sk) - plus->cycle_stamp;

	if (!is_in_probe_bw(plus))
		return;
	if (spent_us > (u64)plus->cycle_length * plus->min_rtt_us) {
		start_cycle(sk, UP);
		return;
	}
	if (plus->state == UP && spent_us > plus->min_rtt_us &&
	    (rs->prior_in_flight >= target_of(sk, bw_of(plus), UP_GAIN) || rs->losses ||
	     has_nothing_to_send(sk, rs)))
		plus->state = DOWN;
	if (plus->state == DOWN &&
	    tcp_packets_in_flight(tcp_sk(sk)) <= target_of(sk, bw_of(plus), UNIT))
		plus->state = CRUISE;
}

static void restore_cwnd(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_snd_cwnd_set(tp, max(tcp_snd_cwnd(tp), plus_of(sk)->prior_cwnd));
}

static void save_cwnd(struct sock *sk)
{
	struct plus *plus = plus_of(sk);
	u32 cwnd = tcp_snd_cwnd(tcp_sk(sk));

	if (plus->prev_ca_state < TCP_CA_Recovery && plus->state != PROBE_RTT)
		plus->prior_cwnd = cwnd;
	else
		plus->prior_cwnd = max(plus->prior_cwnd, cwnd);
}

static void check_probe_rtt_done(struct sock *sk)
{
	struct plus *plus = plus_of(sk);

	if (!plus->probe_rtt_done_stamp || now_us(sk) <= plus->probe_rtt_done_stamp)
		return;
	plus->min_rtt_stamp = now_us(sk);
	restore_cwnd(sk);
	if (plus->full_bw_reached)
		start_cycle(sk, CRUISE);
	else
		plus->state = STARTUP;
}

/* v1 4.1.2 and 4.3.5: RTprop and ProbeRTT */
static void update_min_rtt(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct plus *plus = plus_of(sk);
	bool expired = now_us(sk) > plus->min_rtt_stamp + MIN_RTT_FILTER_US;

	if (rs->rtt_us >= 0 && (rs->rtt_us <= plus->min_rtt_us || expired)) {
		plus->min_rtt_us = max(rs->rtt_us, 1L);
		plus->min_rtt_stamp = now_us(sk);
	}
	if (expired && !plus->idle_restart && plus->state != PROBE_RTT) {
		save_cwnd(sk);
		plus->state = PROBE_RTT;
		plus->probe_rtt_done_stamp = 0;
	}
	if (plus->state == PROBE_RTT) {
		tp->app_limited = (tp->delivered + tcp_packets_in_flight(tp)) ? : 1;
		if (!plus->probe_rtt_done_stamp && tcp_packets_in_flight(tp) <= MIN_CWND) {
			plus->probe_rtt_done_stamp = now_us(sk) + PROBE_RTT_US;
			plus->probe_rtt_round_done = false;
			plus->next_round_delivered = tp->delivered;
		} else if (plus->probe_rtt_done_stamp) {
			plus->probe_rtt_round_done |= plus->round_start;
			if (plus->probe_rtt_round_done)
				check_probe_rtt_done(sk);
		}
	}
	if (rs->delivered > 0)
		plus->idle_restart = false;
}

/* v1 4.2.3.4: packet conservation in the first round of recovery; what was good before, after it */
static u32 cwnd_in_recovery(struct sock *sk, const struct rate_sample *rs, u32 acked, u32 cwnd)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct plus *plus = plus_of(sk);
	u8 ca_state = inet_csk(sk)->icsk_ca_state;

	if (rs->losses > 0)
		cwnd = max_t(s64, (s64)cwnd - rs->losses, 1);
	if (ca_state == TCP_CA_Recovery && plus->prev_ca_state != TCP_CA_Recovery) {
		plus->packet_conservation = true;
		plus->next_round_delivered = tp->delivered;
		cwnd = tcp_packets_in_flight(tp) + acked;
	} else if (plus->prev_ca_state >= TCP_CA_Recovery && ca_state < TCP_CA_Recovery) {
		cwnd = max(cwnd, plus->prior_cwnd);
		plus->packet_conservation = false;
	}
	plus->prev_ca_state = ca_state;
	return cwnd;
}

/* v1 4.2.3.6 */
static void set_cwnd(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct plus *plus = plus_of(sk);
	u32 acked = max(rs->acked_sacked, 0), cwnd = tcp_snd_cwnd(tp), target;

	if (acked) {
		cwnd = cwnd_in_recovery(sk, rs, acked, cwnd);
		target = target_of(sk, bw_of(plus), cwnd_gain(plus)) + extra_acked_of(plus);
		if (plus->packet_conservation)
			cwnd = max(cwnd, tcp_packets_in_flight(tp) + acked);
		else if (plus->full_bw_reached)
			cwnd = min(cwnd + acked, target);
		else if (cwnd < target || tp->delivered < TCP_INIT_CWND)
			cwnd += acked;
		cwnd = max(cwnd, MIN_CWND);
	}
	if (plus->state == PROBE_RTT)
		cwnd = min(cwnd, MIN_CWND);
	tcp_snd_cwnd_set(tp, min(cwnd, tp->snd_cwnd_clamp));
}

/* -- the kernel's calls -- */

static void show(const struct sock *sk)
{
	const struct plus *plus = plus_of(sk);

	if (!plus)
		return;
	GOSTLAB_SHOW(sk,
		     "state=" STATE_WORDS " bw_bps min_rtt_us pacing_gain cwnd_gain cwnd_pkts"
		     " inflight_pkts extra_acked_pkts cycle_length round_count full_bw_reached policed",
		     plus->state, bytes_per_s(sk, bw_of(plus), UNIT) * 8, plus->min_rtt_us,
		     pacing_gain(plus), cwnd_gain(plus), tcp_snd_cwnd(tcp_sk(sk)),
		     tcp_packets_in_flight(tcp_sk(sk)), extra_acked_of(plus), plus->cycle_length,
		     plus->round_count, plus->full_bw_reached, plus->policed);
}

static void reno(struct sock *sk, const struct rate_sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	u32 acked = max(rs->acked_sacked, 0);

	if (!acked || inet_csk(sk)->icsk_ca_state >= TCP_CA_Recovery)
		return;
	if (tcp_in_slow_start(tp))
		acked = tcp_slow_start(tp, acked);
	if (acked)
		tcp_cong_avoid_ai(tp, tcp_snd_cwnd(tp), acked);
}

static void plus_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *rs)
{
	struct plus *plus = plus_of(sk);

	if (!plus) {
		reno(sk, rs);
		return;
	}
	plus->round_start = false;
	if (rs->delivered > 0 && rs->interval_us > 0) {
		update_bw(sk, rs);
		update_extra_acked(sk, rs);
		check_full_bw(plus, rs);
		check_drain(sk);
		update_cycle(sk, rs);
	}
	update_min_rtt(sk, rs);
	set_pacing_rate(sk, pacing_gain(plus));
	set_cwnd(sk, rs);
	if (gostlab_every_ack)
		show(sk);
}

static void plus_init(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct plus *plus = kzalloc(sizeof(*plus), GFP_ATOMIC);

	*(struct plus **)inet_csk_ca(sk) = plus;
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	if (!plus)
		return;
	plus->min_rtt_us = tcp_min_rtt(tp);
	plus->min_rtt_stamp = now_us(sk);
	plus->ack_epoch_stamp = now_us(sk);
	plus->next_round_delivered = tp->delivered;
	minmax_reset(&plus->bw_filter, 0, 0);
	policer_forget(sk);
	init_pacing_rate(sk);
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

static void plus_release(struct sock *sk)
{
	kfree(plus_of(sk));
	*(struct plus **)inet_csk_ca(sk) = NULL;
}

/* v1 4.3.4.4: after a pause at exactly the rate */
static void plus_restart(struct sock *sk)
{
	struct plus *plus = plus_of(sk);

	if (!plus || !tcp_sk(sk)->app_limited)
		return;
	plus->idle_restart = true;
	plus->ack_epoch_stamp = now_us(sk);
	plus->ack_epoch_acked = 0;
	if (is_in_probe_bw(plus))
		set_pacing_rate(sk, UNIT);
	else if (plus->state == PROBE_RTT)
		check_probe_rtt_done(sk);
}

static u32 plus_ssthresh(struct sock *sk)
{
	if (!plus_of(sk))
		return tcp_reno_ssthresh(sk);
	save_cwnd(sk);
	return tcp_sk(sk)->snd_ssthresh;
}

static u32 plus_undo_cwnd(struct sock *sk)
{
	struct plus *plus = plus_of(sk);

	if (!plus)
		return tcp_reno_undo_cwnd(sk);
	plus->full_bw = 0;
	plus->full_bw_count = 0;
	policer_forget(sk);
	return tcp_snd_cwnd(tcp_sk(sk));
}

static void plus_set_state(struct sock *sk, u8 new_state)
{
	struct plus *plus = plus_of(sk);

	if (!plus || new_state != TCP_CA_Loss)
		return;
	plus->prev_ca_state = TCP_CA_Loss;
	plus->full_bw = 0;
	plus->packet_conservation = false;
}

static u32 plus_sndbuf_expand(struct sock *sk)
{
	return 3;
}

static size_t plus_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct plus *plus = plus_of(sk);
	u64 rate;

	if (!plus || !(ext & (1 << (INET_DIAG_BBRINFO - 1)) || ext & (1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	show(sk);
	rate = bytes_per_s(sk, bw_of(plus), UNIT);
	memset(&info->bbr, 0, sizeof(info->bbr));
	info->bbr.bbr_bw_lo = (u32)rate;
	info->bbr.bbr_bw_hi = rate >> 32;
	info->bbr.bbr_min_rtt = plus->min_rtt_us;
	info->bbr.bbr_pacing_gain = pacing_gain(plus);
	info->bbr.bbr_cwnd_gain = cwnd_gain(plus);
	*attr = INET_DIAG_BBRINFO;
	return sizeof(info->bbr);
}

GOSTLAB_CONG_CONTROL(plus_cong_control)
GOSTLAB_TX_START(plus_restart)

static struct tcp_congestion_ops bbrplus __read_mostly = {
	.name = "bbrplus",
	.owner = THIS_MODULE,
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = plus_init,
	.release = plus_release,
	.cong_control = GOSTLAB_HOOK(plus_cong_control),
	GOSTLAB_ON_TX_START(plus_restart),
	.ssthresh = plus_ssthresh,
	.undo_cwnd = plus_undo_cwnd,
	.set_state = plus_set_state,
	.sndbuf_expand = plus_sndbuf_expand,
	.get_info = plus_get_info,
};

static int __init plus_register(void)
{
	BUILD_BUG_ON(sizeof(struct plus *) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&bbrplus);
}
module_init(plus_register);

static void __exit plus_unregister(void)
{
	tcp_unregister_congestion_control(&bbrplus);
}
module_exit(plus_unregister);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("BBRplus: BBRv1 with drain to target, random cycles and extra_acked");
