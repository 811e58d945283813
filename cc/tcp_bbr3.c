// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * BBRv3, written for gostlab from the text of draft-ietf-ccwg-bbr-06 (Cardwell, Swett, Beshay; 6
 * July 2026) alone; and `bbr2`, the same file with the constants and the two rules in which BBRv2
 * is publicly described to differ. `bbr2` is a reconstruction, not Google's code of that name.
 *
 * Each function names its section of the draft. Volumes are in packets, times in µs, rates in 2^-24
 * packets per µs, gains in 1/256. ~0 is infinity.
 *
 * Decisions, where the draft leaves one open or its pseudocode and its text differ:
 *  1. Both gains are set from the state at every ACK (table 5.6.1): else UP's 2.25 and ProbeRTT's
 *     0.5 would outlast their states.
 *  2. SetPacingRate takes BBR.pacing_gain and BBR.bw. Inflight() and BDPMultiple() take BBR.bw, but
 *     for the ends of Drain and DOWN, which compare with max_bw: a short-term cut must not call a
 *     queue a BDP.
 *  3. OnInit sets probe_rtt_min_delay to infinity and its stamp to now.
 *  4. AdaptLongTermModel returns true only where it has started REFILL.
 *  5. CheckStartupHighLoss (prose in 5.3.1.3): in Recovery since an earlier round; the newest ACKed
 *     packet's round lost more than 2 % of what was in flight when it left; and in that round at
 *     least six ranges of sequence numbers were newly lost that do not touch.
 *  6. The rounds of Reno coexistence compare with the target in packets.
 *  7. ProbeRTT's window is 0.5 BDP, as its pseudocode has it (5.6.4.5's prose says MinPipeCwnd).
 *  8. OnEnterRTO's inflight + 1 is one packet, which Linux's tcp_enter_loss sets.
 *  9. A sample counts if its interval is positive and something was delivered. An ACK without one
 *     moves no round and no filter; losses are taken from it all the same.
 * 10. AdvanceMaxBwFilter keeps the older of the two cycles where the newer one had no sample.
 * 11. A CE mark counts like a loss in its round (3.6), outside the 2 % of a probe.
 *
 * Deviations that an unpatched kernel asks for:
 *  a. P.tx_in_flight and P.lost are not kept per packet. A ring of (delivered, lost, in flight), an
 *     entry for each ACK or 1/128 of the flight, gives both by P.delivered: exact but for what left
 *     between two entries.
 *  b. There is no call per lost packet. At an ACK that marks losses the retransmission queue is
 *     walked, and the newly lost are the last of those that are marked and not yet sent again. Only
 *     Startup and samples of a probe walk. What a retransmission timeout marks is seen at the next
 *     ACK.
 *  c. send_quantum is Linux's own autosizing (1 ms of the pacing rate, and more at the shortest
 *     round trips); budgets use the draft's number.
 *  d. The state takes more than a socket's 104 bytes, and is allocated. Without memory the
 *     connection is Reno.
 */
#include <linux/module.h>
#include <linux/random.h>
#include <linux/win_minmax.h>
#include <linux/inet_diag.h>
#include <net/tcp.h>

#include "gostlab_cc.h"

#define BW_SHIFT 24
#define UNIT 256 /* a gain of 1 */
#define GAIN(number) ((u32)((number) * UNIT))
#define INFINITE (~0U)

#define MIN_PIPE_CWND 4U /* 2.8 */
#define MIN_RTT_FILTER_US (10 * USEC_PER_SEC) /* 2.16.1 */
#define PROBE_RTT_INTERVAL_US (5 * USEC_PER_SEC) /* 2.16.2 */
#define PROBE_RTT_US (200 * USEC_PER_MSEC)
#define EXTRA_ACKED_ROUNDS 10 /* 2.12 */
#define PACING_MARGIN_PERCENT 1 /* 2.5 */
#define HEADROOM_PERCENT 15 /* 2.8 */
#define MOST_PROBE_ROUNDS 63U /* 5.3.3.8 */
#define FULL_BW_ROUNDS 3 /* 5.3.1.2 */

static unsigned int loss_permille = 20; /* 2.8: BBR.LossThresh */
module_param(loss_permille, uint, 0444);
MODULE_PARM_DESC(loss_permille, "packets of 1000 whose loss says that a probe went too high");
static unsigned int beta_percent = 70; /* 2.8: BBR.Beta */
module_param(beta_percent, uint, 0444);
MODULE_PARM_DESC(beta_percent, "what a round with loss leaves of the short-term model, percent");
static bool marks = true; /* 3.6 */
module_param(marks, bool, 0444);
MODULE_PARM_DESC(marks, "0: a mark is no congestion, as to Google's of 2023 above 5 ms of RTT");

enum state { STARTUP, DRAIN, DOWN, CRUISE, REFILL, UP, PROBE_RTT, NO_STATE };
#define STATE_WORDS "STARTUP|DRAIN|DOWN|CRUISE|REFILL|UP|PROBE_RTT|NONE"

enum ack_phase { INIT, REFILLING, PROBE_STARTING, PROBE_FEEDBACK, PROBE_STOPPING };
#define ACK_PHASE_WORDS "INIT|REFILLING|PROBE_STARTING|PROBE_FEEDBACK|PROBE_STOPPING"

/* What version 3 and the reconstruction of version 2 differ in. */
struct version {
	u32 pacing_gain[NO_STATE];
	u32 cwnd_gain[NO_STATE];
	u32 startup_loss_ranges;
	u32 most_drain_rounds;
	bool startup_loss_wants_latest; /* inflight_longterm = max(BDP, latest), and not the BDP alone */
	bool up_ends_at_its_gain; /* at 1.25 BDP in flight, and not by the plateau alone */
};

static const struct version version_3 = { /* 5.6.1 */
	.pacing_gain = { GAIN(2.77), GAIN(0.5), GAIN(0.9), GAIN(1), GAIN(1), GAIN(1.25), GAIN(1) },
	.cwnd_gain = { GAIN(2), GAIN(2), GAIN(2), GAIN(2), GAIN(2), GAIN(2.25), GAIN(0.5) },
	.startup_loss_ranges = 6,
	.most_drain_rounds = 3,
	.startup_loss_wants_latest = true,
};

static const struct version version_2 = {
	.pacing_gain = { GAIN(2.885), GAIN(0.347), GAIN(0.75), GAIN(1), GAIN(1), GAIN(1.25), GAIN(1) },
	.cwnd_gain = { GAIN(2.885), GAIN(2.885), GAIN(2), GAIN(2), GAIN(2), GAIN(2), GAIN(0.5) },
	.startup_loss_ranges = 8,
	.most_drain_rounds = INFINITE,
	.up_ends_at_its_gain = true,
};

/* Deviation a: what was lost and in flight when packets left with `delivered` in this entry. */
#define PAST_ENTRIES 256
#define ENTRIES_PER_FLIGHT 128
struct past {
	u32 delivered;
	u32 lost;
	u32 in_flight;
};

/* 2.3, of the newest packet that an ACK covers */
struct sample {
	bool valid;
	bool is_app_limited;
	u64 delivery_rate;
	u32 delivered;
	u32 prior_delivered;
	u32 newly_acked;
	u32 tx_in_flight;
	u32 lost;
};

struct bbr {
	const struct version *version;
	enum state state;
	enum ack_phase ack_phase;
	u32 pacing_gain;
	u32 cwnd_gain;

	/* 2.7 */
	u32 round_count;
	u32 next_round_delivered;
	u32 drain_start_round;
	bool round_start;
	bool idle_restart;
	bool has_seen_rtt;
	u8 prev_ca_state;

	/* 2.9, 2.11 */
	u64 max_bw_of_cycle[2]; /* the previous one, the current */
	u64 max_bw;
	u64 bw;
	u64 bw_shortterm; /* ~0: infinite */
	u32 inflight_shortterm;
	u32 inflight_longterm;
	u32 max_inflight;

	/* 2.10, 5.5.10 */
	u64 bw_latest;
	u32 inflight_latest;
	u32 loss_round_delivered;
	bool loss_round_start;
	bool is_loss_in_round;
	u32 lost_seen; /* C.lost at the last ACK */
	u32 marks_seen; /* of congestion, at the last ACK; for kernels before 5.19 */
	u32 lost_ranges_in_round;
	u32 last_lost_end; /* sequence number after the newest lost range */
	u32 recovery_round; /* round_count when Recovery began */

	/* 2.12 */
	u64 extra_acked_interval_start;
	u32 extra_acked_delivered;
	u32 extra_acked;
	struct minmax extra_acked_filter;

	/* 2.13 */
	u64 full_bw;
	u8 full_bw_count;
	bool full_bw_now;
	bool full_bw_reached;

	/* 2.14 */
	bool is_bw_probe_sample;
	bool prev_probe_too_high;
	bool prev_probe_precautionary;
	u32 bw_probe_up_acked;
	u32 probe_up_acked_per_inc;
	u32 bw_probe_up_rounds;
	u32 rounds_since_probe_up;
	u32 bw_probe_wait_us;
	u64 cycle_stamp;

	/* 2.15 */
	enum state undo_state;
	u64 undo_bw_shortterm;
	u32 undo_inflight_shortterm;
	u32 undo_inflight_longterm;
	u32 prior_cwnd;

	/* 2.16 */
	u32 min_rtt_us;
	u64 min_rtt_stamp;
	u32 probe_rtt_min_delay_us;
	u64 probe_rtt_min_stamp;
	u64 probe_rtt_done_stamp;
	bool probe_rtt_expired;
	bool probe_rtt_round_done;

	u32 past_head; /* the newest entry */
	u32 past_count;
	struct past past[PAST_ENTRIES];
};

static struct bbr *bbr_of(const struct sock *sk)
{
	return *(struct bbr **)inet_csk_ca(sk);
}

static u64 now_us(const struct sock *sk)
{
	return tcp_sk(sk)->tcp_mstamp;
}

static u32 inflight_of(const struct sock *sk)
{
	return tcp_packets_in_flight(tcp_sk(sk));
}

static bool in_recovery(u8 ca_state)
{
	return ca_state == TCP_CA_Recovery || ca_state == TCP_CA_Loss;
}

/* 2.2: C.has_selective_acks */
static bool has_selective_acks(const struct sock *sk)
{
	return tcp_is_sack(tcp_sk(sk));
}

static bool is_in_probe_bw(const struct bbr *bbr)
{
	return bbr->state >= DOWN && bbr->state <= UP;
}

/* 5.3.3.9: IsProbingBW */
static bool is_probing_bw(const struct bbr *bbr)
{
	return bbr->state == STARTUP || bbr->state == REFILL || bbr->state == UP;
}

static void enter(struct bbr *bbr, enum state state)
{
	bbr->state = state;
	bbr->pacing_gain = bbr->version->pacing_gain[state];
	bbr->cwnd_gain = bbr->version->cwnd_gain[state];
}

/* -- deviation a: the past, by `delivered` -- */

/* What leaves from now on finds tp->delivered packets delivered. */
static void past_begin(struct sock *sk, struct bbr *bbr)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct past *newest = &bbr->past[bbr->past_head];
	u32 step = max(inflight_of(sk) / ENTRIES_PER_FLIGHT, 1U);

	if (bbr->past_count && tp->delivered - newest->delivered < step)
		return;
	bbr->past_head = (bbr->past_head + 1) % PAST_ENTRIES;
	bbr->past_count = min(bbr->past_count + 1, (u32)PAST_ENTRIES);
	bbr->past[bbr->past_head] = (struct past){ tp->delivered, tp->lost, inflight_of(sk) };
}

/* What had left when this ACK came: the end of the newest entry's time. */
static void past_end(struct bbr *bbr, u32 in_flight)
{
	if (bbr->past_count)
		bbr->past[bbr->past_head].in_flight = in_flight;
}

/* The entry of a packet that left when `delivered` were; the oldest one for what is older. */
static const struct past *past_at(const struct bbr *bbr, u32 delivered)
{
	u32 newest = 0, oldest = bbr->past_count - 1; /* ages */

	while (newest < oldest) {
		u32 middle = (newest + oldest) / 2;
		u32 index = (bbr->past_head + PAST_ENTRIES - middle) % PAST_ENTRIES;

		if (after(bbr->past[index].delivered, delivered))
			newest = middle + 1;
		else
			oldest = middle;
	}
	return &bbr->past[(bbr->past_head + PAST_ENTRIES - newest) % PAST_ENTRIES];
}

/* -- 5.6: volumes and rates -- */

/* 5.6.4.2: BDPMultiple, rounded up */
static u32 bdp_multiple(const struct sock *sk, u64 bw, u32 gain)
{
	const struct bbr *bbr = bbr_of(sk);
	u64 volume;

	if (bbr->min_rtt_us == INFINITE)
		return TCP_INIT_CWND;
	volume = mul_u64_u32_shr(bw * bbr->min_rtt_us, gain, 8);
	return min_t(u64, (volume + (1ULL << BW_SHIFT) - 1) >> BW_SHIFT, INFINITE / 4);
}

/* 5.6.3, in packets: SetSendQuantum */
static u32 send_quantum(const struct sock *sk)
{
	u32 mss = tcp_sk(sk)->mss_cache;
	u64 bytes = READ_ONCE(sk->sk_pacing_rate) / 1000;

	return max_t(u32, min_t(u64, bytes, 65536) / mss, 2);
}

/* 5.6.4.2: QuantizationBudget; 5.5.8.1: the offload budget */
static u32 quantization_budget(const struct sock *sk, u32 inflight)
{
	inflight = max3(inflight, 3 * send_quantum(sk), MIN_PIPE_CWND);
	return bbr_of(sk)->state == UP ? inflight + 2 : inflight;
}

/* 5.6.4.2: Inflight */
static u32 inflight(const struct sock *sk, u64 bw, u32 gain)
{
	return quantization_budget(sk, bdp_multiple(sk, bw, gain));
}

/* 5.3.3.9: InflightWithHeadroom */
static u32 inflight_with_headroom(const struct bbr *bbr)
{
	u32 headroom;

	if (bbr->inflight_longterm == INFINITE)
		return INFINITE;
	headroom = max((u32)((u64)bbr->inflight_longterm * HEADROOM_PERCENT / 100), 1U);
	return max(bbr->inflight_longterm - min(headroom, bbr->inflight_longterm), MIN_PIPE_CWND);
}

/* 5.3.3.8: TargetInflight */
static u32 target_inflight(const struct sock *sk)
{
	return min(bdp_multiple(sk, bbr_of(sk)->bw, UNIT), tcp_snd_cwnd(tcp_sk(sk)));
}

/* 5.6.4.5: ProbeRTTCwnd */
static u32 probe_rtt_cwnd(const struct sock *sk)
{
	const struct bbr *bbr = bbr_of(sk);

	return max(bdp_multiple(sk, bbr->bw, bbr->version->cwnd_gain[PROBE_RTT]), MIN_PIPE_CWND);
}

/* Bytes per second that the sender paces at. */
static u64 bytes_per_s(const struct sock *sk, u64 bw, u32 gain)
{
	u64 rate = mul_u64_u32_shr(bw * tcp_sk(sk)->mss_cache, gain, 8);

	return mul_u64_u32_shr(rate, USEC_PER_SEC / 100 * (100 - PACING_MARGIN_PERCENT), BW_SHIFT);
}

static void set_rate(struct sock *sk, u64 rate)
{
	WRITE_ONCE(sk->sk_pacing_rate,
		   min_t(unsigned long, rate, READ_ONCE(sk->sk_max_pacing_rate)));
}

/* 5.6.2: InitPacingRate */
static void init_pacing_rate(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = bbr_of(sk);
	u32 rtt_us = tp->srtt_us ? max(tp->srtt_us >> 3, 1U) : USEC_PER_MSEC;
	u64 bw = div_u64((u64)TCP_INIT_CWND << BW_SHIFT, rtt_us);

	bbr->has_seen_rtt = tp->srtt_us != 0;
	set_rate(sk, bytes_per_s(sk, bw, bbr->version->pacing_gain[STARTUP]));
}

/* 5.6.2: SetPacingRateWithGain */
static void set_pacing_rate_with_gain(struct sock *sk, u32 gain)
{
	struct bbr *bbr = bbr_of(sk);
	u64 rate = bytes_per_s(sk, bbr->bw, gain);

	if (!bbr->has_seen_rtt && tcp_sk(sk)->srtt_us)
		init_pacing_rate(sk);
	if (rate && (bbr->full_bw_reached || rate > READ_ONCE(sk->sk_pacing_rate)))
		set_rate(sk, rate);
}

/* -- 5.5.1 to 5.5.6: rounds and max_bw -- */

/* 5.5.1: StartRound */
static void start_round(struct sock *sk)
{
	bbr_of(sk)->next_round_delivered = tcp_sk(sk)->delivered;
}

/* 5.5.1: UpdateRound */
static void update_round(struct sock *sk, const struct sample *rs)
{
	struct bbr *bbr = bbr_of(sk);

	bbr->round_start = !before(rs->prior_delivered, bbr->next_round_delivered);
	if (!bbr->round_start)
		return;
	start_round(sk);
	bbr->round_count++;
	bbr->rounds_since_probe_up++;
}

/* 5.5.5: UpdateMaxBw */
static void update_max_bw(struct sock *sk, const struct sample *rs)
{
	struct bbr *bbr = bbr_of(sk);

	update_round(sk, rs);
	if (rs->delivery_rate && (rs->delivery_rate >= bbr->max_bw || !rs->is_app_limited)) {
		bbr->max_bw_of_cycle[1] = max(bbr->max_bw_of_cycle[1], rs->delivery_rate);
		bbr->max_bw = max(bbr->max_bw_of_cycle[0], bbr->max_bw_of_cycle[1]);
	}
}

/* 5.5.6: AdvanceMaxBwFilter */
static void advance_max_bw_filter(struct bbr *bbr)
{
	if (!bbr->max_bw_of_cycle[1])
		return;
	bbr->max_bw_of_cycle[0] = bbr->max_bw_of_cycle[1];
	bbr->max_bw_of_cycle[1] = 0;
	bbr->max_bw = bbr->max_bw_of_cycle[0];
}

/* -- 5.5.10: congestion signals -- */

/* 5.5.10.3: ResetCongestionSignals */
static void reset_congestion_signals(struct bbr *bbr)
{
	bbr->is_loss_in_round = false;
	bbr->lost_ranges_in_round = 0;
	bbr->bw_latest = 0;
	bbr->inflight_latest = 0;
}

/* 5.5.10.3: ResetShortTermModel */
static void reset_short_term_model(struct bbr *bbr)
{
	bbr->bw_shortterm = ~0ULL;
	bbr->inflight_shortterm = INFINITE;
}

/* 5.3.1.2: ResetFullBW */
static void reset_full_bw(struct bbr *bbr)
{
	bbr->full_bw = 0;
	bbr->full_bw_count = 0;
	bbr->full_bw_now = false;
}

/* 5.6.4.4: SaveCwnd */
static void save_cwnd(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);
	u32 cwnd = tcp_snd_cwnd(tcp_sk(sk));

	if (!in_recovery(bbr->prev_ca_state) && bbr->state != PROBE_RTT)
		bbr->prior_cwnd = cwnd;
	else
		bbr->prior_cwnd = max(bbr->prior_cwnd, cwnd);
}

/* 5.6.4.4: RestoreCwnd */
static void restore_cwnd(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);

	tcp_snd_cwnd_set(tp, max(tcp_snd_cwnd(tp), bbr_of(sk)->prior_cwnd));
}

/* 5.5.11.1: SaveStateUponLoss */
static void save_state_upon_loss(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);

	save_cwnd(sk);
	bbr->undo_state = NO_STATE;
	bbr->undo_bw_shortterm = bbr->bw_shortterm;
	bbr->undo_inflight_shortterm = bbr->inflight_shortterm;
	bbr->undo_inflight_longterm = bbr->inflight_longterm;
}

/* 5.5.10.2: IsInflightTooHigh */
static bool is_inflight_too_high(const struct sock *sk, const struct sample *rs)
{
	if (rs->lost && !has_selective_acks(sk))
		return true;
	return (u64)rs->lost * 1000 > (u64)rs->tx_in_flight * loss_permille;
}

static void start_down(struct sock *sk);
static void start_refill(struct sock *sk);

/* 5.5.10.2: HandleInflightTooHigh */
static void handle_inflight_too_high(struct sock *sk, const struct sample *rs)
{
	struct bbr *bbr = bbr_of(sk);

	bbr->prev_probe_too_high = true;
	bbr->is_bw_probe_sample = false;
	if (!rs->is_app_limited)
		bbr->inflight_longterm =
			max(rs->tx_in_flight, target_inflight(sk) * beta_percent / 100);
	if (bbr->state == UP) {
		bbr->undo_state = UP;
		start_down(sk);
	}
}

/* 5.5.10.2: NoteLoss */
static void note_loss(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);

	if (!bbr->is_loss_in_round) {
		bbr->loss_round_delivered = tcp_sk(sk)->delivered;
		save_state_upon_loss(sk);
	}
	bbr->is_loss_in_round = true;
}

/* 5.5.10.2: InflightAtLoss */
static u32 inflight_at_loss(const struct sample *rs, u32 size)
{
	u32 inflight_prev = rs->tx_in_flight - min(size, rs->tx_in_flight);
	u32 lost_prev = rs->lost - min(size, rs->lost);
	s64 room = (s64)inflight_prev * loss_permille - (s64)lost_prev * 1000;

	return inflight_prev + (room > 0 ? div_u64(room, 1000 - loss_permille) : 0);
}

/* 5.5.10.2: HandleLostPacket, of the part that wants to know which */
static void handle_lost_packet(struct sock *sk, struct sk_buff *skb)
{
	struct bbr *bbr = bbr_of(sk);
	const struct past *then = past_at(bbr, TCP_SKB_CB(skb)->tx.delivered);
	struct sample rs = {
		.tx_in_flight = then->in_flight,
		.lost = tcp_sk(sk)->lost - then->lost,
		.is_app_limited = TCP_SKB_CB(skb)->tx.is_app_limited,
	};

	if (TCP_SKB_CB(skb)->seq != bbr->last_lost_end)
		bbr->lost_ranges_in_round++;
	bbr->last_lost_end = TCP_SKB_CB(skb)->end_seq;
	if (!bbr->is_bw_probe_sample || !is_inflight_too_high(sk, &rs))
		return;
	rs.tx_in_flight = inflight_at_loss(&rs, tcp_skb_pcount(skb));
	handle_inflight_too_high(sk, &rs);
}

static bool is_lost_and_waiting(struct sk_buff *skb)
{
	u8 sacked = TCP_SKB_CB(skb)->sacked;

	return (sacked & TCPCB_LOST) && !(sacked & TCPCB_SACKED_RETRANS);
}

/* Deviation b: the newly lost packets, in the order of their sequence numbers. */
static void handle_lost_packets(struct sock *sk, u32 newly_lost)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = bbr_of(sk);
	u32 waiting = 0, passed = 0;
	struct sk_buff *skb;

	if (!newly_lost)
		return;
	note_loss(sk);
	if (!bbr->is_bw_probe_sample && bbr->state != STARTUP)
		return;
	for (skb = tcp_rtx_queue_head(sk); skb; skb = skb_rb_next(skb)) {
		if (TCP_SKB_CB(skb)->sacked & TCPCB_LOST)
			passed += tcp_skb_pcount(skb);
		if (is_lost_and_waiting(skb))
			waiting += tcp_skb_pcount(skb);
		if (passed >= tp->lost_out)
			break;
	}
	passed = 0;
	for (skb = tcp_rtx_queue_head(sk); skb && passed < waiting; skb = skb_rb_next(skb)) {
		if (!is_lost_and_waiting(skb))
			continue;
		passed += tcp_skb_pcount(skb);
		if (waiting - passed < newly_lost)
			handle_lost_packet(sk, skb);
	}
}

/* 5.5.10.3: UpdateLatestDeliverySignals */
static void update_latest_delivery_signals(struct sock *sk, const struct sample *rs)
{
	struct bbr *bbr = bbr_of(sk);

	bbr->bw_latest = max(bbr->bw_latest, rs->delivery_rate);
	bbr->inflight_latest = max(bbr->inflight_latest, rs->delivered);
	bbr->loss_round_start = !before(rs->prior_delivered, bbr->loss_round_delivered);
	if (bbr->loss_round_start)
		bbr->loss_round_delivered = tcp_sk(sk)->delivered;
}

/* 5.5.10.3: AdvanceLatestDeliverySignals */
static void advance_latest_delivery_signals(struct bbr *bbr, const struct sample *rs)
{
	if (!bbr->loss_round_start)
		return;
	bbr->bw_latest = rs->delivery_rate;
	bbr->inflight_latest = rs->delivered;
	bbr->lost_ranges_in_round = 0;
}

/* 5.5.10.3: AdaptLowerBoundsFromCongestion, InitLowerBounds, LossLowerBounds */
static void adapt_lower_bounds(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);

	if (is_probing_bw(bbr) || !bbr->is_loss_in_round)
		return;
	if (bbr->bw_shortterm == ~0ULL)
		bbr->bw_shortterm = bbr->max_bw;
	if (bbr->inflight_shortterm == INFINITE)
		bbr->inflight_shortterm = tcp_snd_cwnd(tcp_sk(sk));
	bbr->bw_shortterm =
		max(bbr->bw_latest, div_u64(bbr->bw_shortterm * beta_percent, 100));
	bbr->inflight_shortterm =
		max(bbr->inflight_latest, (u32)((u64)bbr->inflight_shortterm * beta_percent / 100));
}

/* 5.5.10.3: UpdateCongestionSignals */
static void update_congestion_signals(struct sock *sk, const struct sample *rs)
{
	struct bbr *bbr = bbr_of(sk);

	update_max_bw(sk, rs);
	if (!bbr->loss_round_start)
		return;
	adapt_lower_bounds(sk);
	bbr->is_loss_in_round = false;
}

/* 5.5.10.3: BoundBWForModel */
static void bound_bw_for_model(struct bbr *bbr)
{
	bbr->bw = min(bbr->max_bw, bbr->bw_shortterm);
}

/* 5.5.9: UpdateACKAggregation */
static void update_ack_aggregation(struct sock *sk, const struct sample *rs)
{
	struct bbr *bbr = bbr_of(sk);
	u64 interval_us = now_us(sk) - bbr->extra_acked_interval_start;
	u64 expected = (bbr->bw * interval_us) >> BW_SHIFT;
	u32 extra;

	if (bbr->extra_acked_delivered <= expected) {
		bbr->extra_acked_delivered = 0;
		bbr->extra_acked_interval_start = now_us(sk);
		expected = 0;
	}
	bbr->extra_acked_delivered += rs->newly_acked;
	extra = min_t(u64, bbr->extra_acked_delivered - expected, tcp_snd_cwnd(tcp_sk(sk)));
	bbr->extra_acked = minmax_running_max(&bbr->extra_acked_filter,
					      bbr->full_bw_reached ? EXTRA_ACKED_ROUNDS : 1,
					      bbr->round_count, extra);
}

/* -- 5.3.1, 5.3.2: Startup and Drain -- */

/* 5.3.1.1: EnterStartup */
static void enter_startup(struct bbr *bbr)
{
	enter(bbr, STARTUP);
}

/* 5.3.2: EnterDrain */
static void enter_drain(struct bbr *bbr)
{
	enter(bbr, DRAIN);
	bbr->drain_start_round = bbr->round_count;
}

/* 5.3.1.2: CheckFullBWReached */
static void check_full_bw_reached(struct bbr *bbr, const struct sample *rs)
{
	if (bbr->full_bw_now || !bbr->round_start || rs->is_app_limited)
		return;
	if (rs->delivery_rate * 4 >= bbr->full_bw * 5) {
		reset_full_bw(bbr);
		bbr->full_bw = rs->delivery_rate;
		return;
	}
	bbr->full_bw_count++;
	bbr->full_bw_now = bbr->full_bw_count >= FULL_BW_ROUNDS;
	if (bbr->full_bw_now)
		bbr->full_bw_reached = true;
}

/* 5.3.1.3: CheckStartupHighLoss */
static void check_startup_high_loss(struct sock *sk, const struct sample *rs)
{
	struct bbr *bbr = bbr_of(sk);
	u32 bdp;

	if (bbr->state != STARTUP || bbr->full_bw_reached ||
	    inet_csk(sk)->icsk_ca_state != TCP_CA_Recovery)
		return;
	if (has_selective_acks(sk) &&
	    (!bbr->loss_round_start || bbr->round_count <= bbr->recovery_round ||
	     bbr->lost_ranges_in_round < bbr->version->startup_loss_ranges ||
	     !is_inflight_too_high(sk, rs)))
		return;
	bdp = bdp_multiple(sk, bbr->bw, UNIT);
	bbr->undo_state = STARTUP;
	bbr->full_bw_now = true;
	bbr->full_bw_reached = true;
	bbr->inflight_longterm =
		bbr->version->startup_loss_wants_latest ? max(bdp, bbr->inflight_latest) : bdp;
}

/* 5.3.1.1: CheckStartupDone */
static void check_startup_done(struct sock *sk, const struct sample *rs)
{
	struct bbr *bbr = bbr_of(sk);

	check_startup_high_loss(sk, rs);
	if (bbr->state == STARTUP && bbr->full_bw_reached)
		enter_drain(bbr);
}

/* 5.3.2: CheckDrainDone */
static void check_drain_done(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);

	if (bbr->state != DRAIN)
		return;
	if (inflight_of(sk) <= inflight(sk, bbr->max_bw, UNIT) ||
	    bbr->round_count - bbr->drain_start_round > bbr->version->most_drain_rounds)
		start_down(sk); /* EnterProbeBW */
}

/* -- 5.3.3: ProbeBW -- */

/* 5.3.3.8: PickProbeWait */
static void pick_probe_wait(struct bbr *bbr)
{
	u32 random = get_random_u32();

	bbr->rounds_since_probe_up = random & 1;
	bbr->bw_probe_wait_us =
		2 * USEC_PER_SEC + (u32)(((u64)(random >> 1) * USEC_PER_SEC) >> 31);
}

/* 5.3.3.9: StartProbeBW_DOWN */
static void start_down(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);

	reset_congestion_signals(bbr);
	bbr->probe_up_acked_per_inc = INFINITE;
	pick_probe_wait(bbr);
	bbr->cycle_stamp = now_us(sk);
	bbr->ack_phase = PROBE_STOPPING;
	start_round(sk);
	enter(bbr, DOWN);
}

/* 5.3.3.9: StartProbeBW_CRUISE */
static void start_cruise(struct bbr *bbr)
{
	enter(bbr, CRUISE);
}

/* 5.3.3.9: StartProbeBW_REFILL */
static void start_refill(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);

	reset_short_term_model(bbr);
	bbr->bw_probe_up_rounds = 0;
	bbr->bw_probe_up_acked = 0;
	bbr->prev_probe_precautionary = false;
	bbr->ack_phase = REFILLING;
	start_round(sk);
	enter(bbr, REFILL);
}

/* 5.3.3.9: RaiseInflightLongtermSlope */
static void raise_inflight_longterm_slope(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);
	u32 growth = 1U << bbr->bw_probe_up_rounds;

	bbr->bw_probe_up_rounds = min(bbr->bw_probe_up_rounds + 1, 30U);
	bbr->probe_up_acked_per_inc = max(tcp_snd_cwnd(tcp_sk(sk)) / growth, 1U);
}

/* 5.3.3.9: StartProbeBW_UP */
static void start_up(struct sock *sk, const struct sample *rs)
{
	struct bbr *bbr = bbr_of(sk);

	bbr->ack_phase = PROBE_STARTING;
	start_round(sk);
	reset_full_bw(bbr);
	bbr->full_bw = rs->delivery_rate;
	bbr->cycle_stamp = bbr->version->up_ends_at_its_gain ? now_us(sk) : bbr->cycle_stamp;
	enter(bbr, UP);
	raise_inflight_longterm_slope(sk);
}

/* 5.3.3.9: ProbeInflightLongtermUpward */
static void probe_inflight_longterm_upward(struct sock *sk, const struct sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = bbr_of(sk);

	if (!tp->is_cwnd_limited || tcp_snd_cwnd(tp) < bbr->inflight_longterm)
		return;
	bbr->bw_probe_up_acked += rs->newly_acked;
	if (bbr->bw_probe_up_acked >= bbr->probe_up_acked_per_inc) {
		u32 delta = bbr->bw_probe_up_acked / bbr->probe_up_acked_per_inc;

		bbr->bw_probe_up_acked -= delta * bbr->probe_up_acked_per_inc;
		bbr->inflight_longterm += delta;
	}
	if (bbr->round_start)
		raise_inflight_longterm_slope(sk);
}

/* 5.3.3.9: AdaptLongTermModel */
static bool adapt_long_term_model(struct sock *sk, const struct sample *rs)
{
	struct bbr *bbr = bbr_of(sk);

	if (bbr->ack_phase == PROBE_STARTING && bbr->round_start)
		bbr->ack_phase = PROBE_FEEDBACK;
	if (bbr->ack_phase == PROBE_STOPPING && bbr->round_start) {
		bbr->is_bw_probe_sample = false;
		bbr->ack_phase = INIT;
		if (is_in_probe_bw(bbr) && !rs->is_app_limited)
			advance_max_bw_filter(bbr);
		if (is_in_probe_bw(bbr) && bbr->prev_probe_precautionary &&
		    !bbr->prev_probe_too_high) {
			start_refill(sk);
			return true;
		}
	}
	if (is_inflight_too_high(sk, rs) || bbr->inflight_longterm == INFINITE)
		return false;
	bbr->inflight_longterm = max(bbr->inflight_longterm, rs->tx_in_flight);
	if (bbr->state == UP)
		probe_inflight_longterm_upward(sk, rs);
	return false;
}

/* 5.3.3.8: IsTimeToProbeBW */
static bool is_time_to_probe_bw(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);

	if (now_us(sk) <= bbr->cycle_stamp + bbr->bw_probe_wait_us &&
	    bbr->rounds_since_probe_up < min(target_inflight(sk), MOST_PROBE_ROUNDS))
		return false;
	start_refill(sk);
	return true;
}

/* 5.3.3.9: IsTimeToCruise */
static bool is_time_to_cruise(const struct sock *sk)
{
	const struct bbr *bbr = bbr_of(sk);

	return inflight_of(sk) <= inflight_with_headroom(bbr) &&
	       inflight_of(sk) <= inflight(sk, bbr->max_bw, UNIT);
}

/* 5.3.3.9: IsTimeToGoDown */
static bool is_time_to_go_down(struct sock *sk, const struct sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = bbr_of(sk);

	if (bbr->prev_probe_too_high && inflight_of(sk) >= bbr->inflight_longterm) {
		bbr->prev_probe_precautionary = true;
		return true;
	}
	if (bbr->version->up_ends_at_its_gain)
		return now_us(sk) > bbr->cycle_stamp + bbr->min_rtt_us &&
		       inflight_of(sk) >= inflight(sk, bbr->max_bw, bbr->version->pacing_gain[UP]);
	if (tp->is_cwnd_limited && tcp_snd_cwnd(tp) >= bbr->inflight_longterm) {
		reset_full_bw(bbr);
		bbr->full_bw = rs->delivery_rate;
		return false;
	}
	return bbr->full_bw_now;
}

/* 5.3.3.9: UpdateProbeBWCyclePhase */
static void update_probe_bw_cycle_phase(struct sock *sk, const struct sample *rs)
{
	struct bbr *bbr = bbr_of(sk);

	if (!bbr->full_bw_reached)
		return;
	if (adapt_long_term_model(sk, rs))
		return;
	switch (bbr->state) {
	case DOWN:
		if (!is_time_to_probe_bw(sk) && is_time_to_cruise(sk))
			start_cruise(bbr);
		break;
	case CRUISE:
		is_time_to_probe_bw(sk);
		break;
	case REFILL:
		if (bbr->round_start) {
			bbr->is_bw_probe_sample = true;
			start_up(sk, rs);
		}
		break;
	case UP:
		if (is_time_to_go_down(sk, rs)) {
			bbr->prev_probe_too_high = false;
			start_down(sk);
		}
		break;
	default:
		break;
	}
}

/* -- 5.3.4: ProbeRTT -- */

/* 5.3.4.3: UpdateMinRTT */
static void update_min_rtt(struct sock *sk, long rtt_us)
{
	struct bbr *bbr = bbr_of(sk);
	u64 now = now_us(sk);

	bbr->probe_rtt_expired = now > bbr->probe_rtt_min_stamp + PROBE_RTT_INTERVAL_US;
	if (rtt_us >= 0 && (rtt_us < bbr->probe_rtt_min_delay_us || bbr->probe_rtt_expired)) {
		bbr->probe_rtt_min_delay_us = max(rtt_us, 1L);
		bbr->probe_rtt_min_stamp = now;
	}
	if (bbr->probe_rtt_min_delay_us < bbr->min_rtt_us ||
	    now > bbr->min_rtt_stamp + MIN_RTT_FILTER_US) {
		bbr->min_rtt_us = bbr->probe_rtt_min_delay_us;
		bbr->min_rtt_stamp = bbr->probe_rtt_min_stamp;
	}
}

/* 5.3.4.4: ExitProbeRTT */
static void exit_probe_rtt(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);

	reset_short_term_model(bbr);
	if (bbr->full_bw_reached) {
		start_down(sk);
		start_cruise(bbr);
	} else {
		enter_startup(bbr);
	}
}

/* 5.3.4.3: CheckProbeRTTDone */
static void check_probe_rtt_done(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);

	if (!bbr->probe_rtt_done_stamp || now_us(sk) <= bbr->probe_rtt_done_stamp)
		return;
	bbr->probe_rtt_min_stamp = now_us(sk);
	restore_cwnd(sk);
	exit_probe_rtt(sk);
}

/* 5.3.4.3: HandleProbeRTT */
static void handle_probe_rtt(struct sock *sk)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = bbr_of(sk);

	tp->app_limited = (tp->delivered + tcp_packets_in_flight(tp)) ? : 1;
	if (!bbr->probe_rtt_done_stamp && inflight_of(sk) <= probe_rtt_cwnd(sk)) {
		bbr->probe_rtt_done_stamp = now_us(sk) + PROBE_RTT_US;
		bbr->probe_rtt_round_done = false;
		start_round(sk);
	} else if (bbr->probe_rtt_done_stamp) {
		if (bbr->round_start)
			bbr->probe_rtt_round_done = true;
		if (bbr->probe_rtt_round_done)
			check_probe_rtt_done(sk);
	}
}

/* 5.3.4.3: CheckProbeRTT, EnterProbeRTT */
static void check_probe_rtt(struct sock *sk, const struct sample *rs)
{
	struct bbr *bbr = bbr_of(sk);

	if (bbr->state != PROBE_RTT && bbr->probe_rtt_expired && !bbr->idle_restart) {
		save_cwnd(sk); /* before the state, which it asks for */
		enter(bbr, PROBE_RTT);
		bbr->probe_rtt_done_stamp = 0;
		bbr->ack_phase = PROBE_STOPPING;
		start_round(sk);
	}
	if (bbr->state == PROBE_RTT)
		handle_probe_rtt(sk);
	if (rs->delivered > 0)
		bbr->idle_restart = false;
}

/* 5.4.1: HandleRestartFromIdle, on sending with nothing in flight */
static void handle_restart_from_idle(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);

	if (!bbr || !tcp_sk(sk)->app_limited || inflight_of(sk))
		return;
	bbr->idle_restart = true;
	bbr->extra_acked_interval_start = now_us(sk);
	if (is_in_probe_bw(bbr))
		set_pacing_rate_with_gain(sk, UNIT);
	else if (bbr->state == PROBE_RTT)
		check_probe_rtt_done(sk);
}

/* -- 5.6.4: the window -- */

/* 5.6.4.7: BoundCwndForModel */
static u32 cap_of_model(const struct bbr *bbr)
{
	u32 cap = INFINITE;

	if (bbr->state == CRUISE || bbr->state == PROBE_RTT)
		cap = inflight_with_headroom(bbr);
	else if (is_in_probe_bw(bbr))
		cap = bbr->inflight_longterm;
	return max(min(cap, bbr->inflight_shortterm), MIN_PIPE_CWND);
}

/* 5.6.4.6: SetCwnd */
static void set_cwnd(struct sock *sk, const struct sample *rs)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = bbr_of(sk);
	u32 cwnd = tcp_snd_cwnd(tp);

	bbr->max_inflight = quantization_budget(
		sk, bdp_multiple(sk, bbr->bw, bbr->cwnd_gain) + bbr->extra_acked);
	if (bbr->full_bw_reached)
		cwnd = min(cwnd + rs->newly_acked, bbr->max_inflight);
	else if (cwnd < bbr->max_inflight || tp->delivered < TCP_INIT_CWND)
		cwnd += rs->newly_acked;
	cwnd = max(cwnd, MIN_PIPE_CWND);
	if (bbr->state == PROBE_RTT)
		cwnd = min(cwnd, probe_rtt_cwnd(sk));
	cwnd = min(cwnd, cap_of_model(bbr));
	tcp_snd_cwnd_set(tp, min(cwnd, tp->snd_cwnd_clamp));
}

/* -- the kernel's calls -- */

static void show(const struct sock *sk, const struct sample *rs)
{
	const struct bbr *bbr = bbr_of(sk);
	const struct tcp_sock *tp = tcp_sk(sk);

	if (!bbr)
		return;
	GOSTLAB_SHOW(sk,
		     "state=" STATE_WORDS " ack_phase=" ACK_PHASE_WORDS
		     " max_bw_bps bw_bps bw_shortterm_bps inflight_longterm_pkts"
		     " inflight_shortterm_pkts min_rtt_us probe_rtt_min_delay_us pacing_gain cwnd_gain"
		     " cwnd_pkts inflight_pkts max_inflight_pkts pacing_bps extra_acked_pkts round_count"
		     " full_bw_count full_bw_now full_bw_reached is_app_limited delivery_rate_bps"
		     " idle_restart drain_start_round headroom_pkts bdp_budget_pkts lost_ranges"
		     " undo_state=" STATE_WORDS " too_high precautionary probe_up_rounds bw_probe_wait_us"
		     " ca_state lost_pkts",
		     bbr->state, bbr->ack_phase, bytes_per_s(sk, bbr->max_bw, UNIT) * 8 * 100 / 99,
		     bytes_per_s(sk, bbr->bw, UNIT) * 8 * 100 / 99,
		     bbr->bw_shortterm == ~0ULL ?
			     -1 :
			     (s64)(bytes_per_s(sk, bbr->bw_shortterm, UNIT) * 8 * 100 / 99),
		     bbr->inflight_longterm == INFINITE ? -1 : (s64)bbr->inflight_longterm,
		     bbr->inflight_shortterm == INFINITE ? -1 : (s64)bbr->inflight_shortterm,
		     bbr->min_rtt_us, bbr->probe_rtt_min_delay_us, bbr->pacing_gain, bbr->cwnd_gain,
		     tcp_snd_cwnd(tp), inflight_of(sk), bbr->max_inflight,
		     (s64)READ_ONCE(sk->sk_pacing_rate) * 8, bbr->extra_acked, bbr->round_count,
		     bbr->full_bw_count, bbr->full_bw_now, bbr->full_bw_reached,
		     rs ? rs->is_app_limited : -1,
		     rs ? (s64)(bytes_per_s(sk, rs->delivery_rate, UNIT) * 8 * 100 / 99) : -1,
		     bbr->idle_restart, bbr->drain_start_round,
		     inflight_with_headroom(bbr) == INFINITE ? -1 : (s64)inflight_with_headroom(bbr),
		     inflight(sk, bbr->max_bw, UNIT), bbr->lost_ranges_in_round, bbr->undo_state,
		     bbr->prev_probe_too_high, bbr->prev_probe_precautionary, bbr->bw_probe_up_rounds,
		     bbr->bw_probe_wait_us, inet_csk(sk)->icsk_ca_state, tp->lost);
}

/* 4.1 and 2.3: what the stack's rate sampler says, and what deviation a adds */
static struct sample sample_of(struct sock *sk, const struct rate_sample *from)
{
	struct bbr *bbr = bbr_of(sk);
	struct sample rs = {
		.valid = from->delivered > 0 && from->interval_us > 0,
		.is_app_limited = from->is_app_limited,
		.prior_delivered = from->prior_delivered,
		.newly_acked = max(from->acked_sacked, 0),
	};

	if (rs.valid) {
		const struct past *then = past_at(bbr, from->prior_delivered);

		rs.delivered = from->delivered;
		rs.delivery_rate = div_u64((u64)from->delivered << BW_SHIFT, from->interval_us);
		rs.tx_in_flight = then->in_flight;
		rs.lost = tcp_sk(sk)->lost - then->lost;
	}
	return rs;
}

/* Without memory for its state: Reno */
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

/* Leaving recovery, 5.6.4.4: the window that was good before */
static void watch_recovery(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);
	u8 ca_state = inet_csk(sk)->icsk_ca_state;

	if (in_recovery(bbr->prev_ca_state) && !in_recovery(ca_state))
		restore_cwnd(sk);
	if (ca_state == TCP_CA_Recovery && bbr->prev_ca_state != TCP_CA_Recovery)
		bbr->recovery_round = bbr->round_count;
	bbr->prev_ca_state = ca_state;
}

#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 19, 0)
/* Whether this ACK brings marks of congestion; the sample does not say yet. */
static bool is_marked(struct sock *sk, const struct rate_sample *from)
{
	struct bbr *bbr = bbr_of(sk);
	u32 before = bbr->marks_seen;

	bbr->marks_seen = tcp_sk(sk)->delivered_ce;
	return bbr->marks_seen != before;
}
#else
/* Whether what was sampled brought marks of congestion */
static bool is_marked(struct sock *sk, const struct rate_sample *from)
{
	return from->delivered_ce > 0;
}
#endif

/* 5.2.3: UpdateOnACK, after 5.2.4's steps for what this ACK says is lost */
static void bbr_cong_control(struct sock *sk, u32 ack, int flag, const struct rate_sample *from)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = bbr_of(sk);
	struct sample rs;

	if (!bbr) {
		reno(sk, from);
		return;
	}
	past_end(bbr, from->prior_in_flight);
	if (is_marked(sk, from) && marks)
		note_loss(sk);
	handle_lost_packets(sk, tp->lost - bbr->lost_seen);
	bbr->lost_seen = tp->lost;
	watch_recovery(sk);

	rs = sample_of(sk, from);
	if (rs.valid) {
		update_latest_delivery_signals(sk, &rs);
		update_congestion_signals(sk, &rs);
		update_ack_aggregation(sk, &rs);
		check_full_bw_reached(bbr, &rs);
		check_startup_done(sk, &rs);
		check_drain_done(sk);
		update_probe_bw_cycle_phase(sk, &rs);
	}
	update_min_rtt(sk, from->rtt_us);
	check_probe_rtt(sk, &rs);
	if (rs.valid)
		advance_latest_delivery_signals(bbr, &rs);
	bound_bw_for_model(bbr);

	set_pacing_rate_with_gain(sk, bbr->pacing_gain);
	set_cwnd(sk, &rs);
	past_begin(sk, bbr);
	if (gostlab_every_ack)
		show(sk, &rs);
}

/* 5.2.1: OnInit */
static void init_with(struct sock *sk, const struct version *version)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct bbr *bbr = kzalloc(sizeof(*bbr), GFP_ATOMIC);

	*(struct bbr **)inet_csk_ca(sk) = bbr;
	tp->snd_ssthresh = TCP_INFINITE_SSTHRESH;
	if (!bbr)
		return;
	bbr->version = version;
	bbr->min_rtt_us = tp->srtt_us ? max(tp->srtt_us >> 3, 1U) : INFINITE;
	bbr->min_rtt_stamp = now_us(sk);
	bbr->probe_rtt_min_delay_us = INFINITE;
	bbr->probe_rtt_min_stamp = now_us(sk);
	bbr->undo_state = NO_STATE;
	bbr->extra_acked_interval_start = now_us(sk);
	minmax_reset(&bbr->extra_acked_filter, 0, 0);
	bbr->inflight_longterm = INFINITE;
	bbr->probe_up_acked_per_inc = INFINITE;
	bbr->lost_seen = tp->lost;
	bbr->marks_seen = tp->delivered_ce;
	bbr->next_round_delivered = tp->delivered;
	bbr->loss_round_delivered = tp->delivered;
	bbr->prev_ca_state = TCP_CA_Open;
	reset_short_term_model(bbr);
	enter_startup(bbr);
	init_pacing_rate(sk);
	past_begin(sk, bbr);
	cmpxchg(&sk->sk_pacing_status, SK_PACING_NONE, SK_PACING_NEEDED);
}

static void bbr3_init(struct sock *sk)
{
	init_with(sk, &version_3);
}

static void bbr2_init(struct sock *sk)
{
	init_with(sk, &version_2);
}

static void bbr_release(struct sock *sk)
{
	kfree(bbr_of(sk));
	*(struct bbr **)inet_csk_ca(sk) = NULL;
}

/* 5.6.4.4: OnEnterFastRecovery, OnEnterRTO. No threshold: the window is the model's. */
static u32 bbr_ssthresh(struct sock *sk)
{
	if (!bbr_of(sk))
		return tcp_reno_ssthresh(sk);
	save_state_upon_loss(sk);
	return tcp_sk(sk)->snd_ssthresh;
}

/* 5.5.11.2: HandleSpuriousLossDetection */
static u32 bbr_undo_cwnd(struct sock *sk)
{
	struct bbr *bbr = bbr_of(sk);
	enum state undo_state;

	if (!bbr)
		return tcp_reno_undo_cwnd(sk);
	undo_state = bbr->undo_state;
	restore_cwnd(sk);
	bbr->is_loss_in_round = false;
	reset_full_bw(bbr);
	bbr->bw_shortterm = max(bbr->bw_shortterm, bbr->undo_bw_shortterm);
	bbr->inflight_shortterm = max(bbr->inflight_shortterm, bbr->undo_inflight_shortterm);
	bbr->inflight_longterm = max(bbr->inflight_longterm, bbr->undo_inflight_longterm);
	bbr->undo_state = NO_STATE;
	if (undo_state == STARTUP && bbr->state != STARTUP) {
		bbr->full_bw_reached = false;
		if (bbr->state != PROBE_RTT)
			enter_startup(bbr);
	} else if (undo_state == UP && bbr->state != UP && bbr->state != PROBE_RTT) {
		start_refill(sk);
	}
	return tcp_snd_cwnd(tcp_sk(sk));
}

/*
 * A retransmission timeout loses what was in flight: a loss of its round, before any ACK. Linux has
 * called bbr_ssthresh() and then set the window to one packet: that window must not be saved in
 * place of the one before, so the socket counts as in recovery before note_loss() saves.
 */
static void bbr_set_state(struct sock *sk, u8 new_state)
{
	struct bbr *bbr = bbr_of(sk);

	if (!bbr || new_state != TCP_CA_Loss)
		return;
	bbr->prev_ca_state = TCP_CA_Loss;
	note_loss(sk);
}

static u32 bbr_min_tso_segs(struct sock *sk)
{
	return 2;
}

static u32 bbr_sndbuf_expand(struct sock *sk)
{
	return 3; /* windows of 2.25 BDP, and what is being sent again */
}

static size_t bbr_get_info(struct sock *sk, u32 ext, int *attr, union tcp_cc_info *info)
{
	const struct bbr *bbr = bbr_of(sk);
	u64 rate;

	if (!bbr || !(ext & (1 << (INET_DIAG_BBRINFO - 1)) || ext & (1 << (INET_DIAG_VEGASINFO - 1))))
		return 0;
	show(sk, NULL);
	rate = mul_u64_u32_shr(bbr->bw * tcp_sk(sk)->mss_cache, USEC_PER_SEC, BW_SHIFT);
	memset(&info->bbr, 0, sizeof(info->bbr));
	info->bbr.bbr_bw_lo = (u32)rate;
	info->bbr.bbr_bw_hi = rate >> 32;
	info->bbr.bbr_min_rtt = bbr->min_rtt_us;
	info->bbr.bbr_pacing_gain = bbr->pacing_gain;
	info->bbr.bbr_cwnd_gain = bbr->cwnd_gain;
	*attr = INET_DIAG_BBRINFO;
	return sizeof(info->bbr);
}

GOSTLAB_CONG_CONTROL(bbr_cong_control)
GOSTLAB_TX_START(handle_restart_from_idle)

static struct tcp_congestion_ops bbr3 __read_mostly = {
	.name = "bbr3",
	.owner = THIS_MODULE,
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = bbr3_init,
	.release = bbr_release,
	.cong_control = GOSTLAB_HOOK(bbr_cong_control),
	GOSTLAB_ON_TX_START(handle_restart_from_idle),
	.ssthresh = bbr_ssthresh,
	.undo_cwnd = bbr_undo_cwnd,
	.set_state = bbr_set_state,
	.min_tso_segs = bbr_min_tso_segs,
	.sndbuf_expand = bbr_sndbuf_expand,
	.get_info = bbr_get_info,
};

static struct tcp_congestion_ops bbr2 __read_mostly = {
	.name = "bbr2",
	.owner = THIS_MODULE,
	.flags = TCP_CONG_NON_RESTRICTED,
	.init = bbr2_init,
	.release = bbr_release,
	.cong_control = GOSTLAB_HOOK(bbr_cong_control),
	GOSTLAB_ON_TX_START(handle_restart_from_idle),
	.ssthresh = bbr_ssthresh,
	.undo_cwnd = bbr_undo_cwnd,
	.set_state = bbr_set_state,
	.min_tso_segs = bbr_min_tso_segs,
	.sndbuf_expand = bbr_sndbuf_expand,
	.get_info = bbr_get_info,
};

static int __init bbr_register(void)
{
	int err;

	BUILD_BUG_ON(sizeof(struct bbr *) > ICSK_CA_PRIV_SIZE);
	err = tcp_register_congestion_control(&bbr3);
	if (!err) {
		err = tcp_register_congestion_control(&bbr2);
		if (err)
			tcp_unregister_congestion_control(&bbr3);
	}
	return err;
}
module_init(bbr_register);

static void __exit bbr_unregister(void)
{
	tcp_unregister_congestion_control(&bbr2);
	tcp_unregister_congestion_control(&bbr3);
}
module_exit(bbr_unregister);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("BBRv3 from draft-ietf-ccwg-bbr-06, and a reconstruction of BBRv2");
