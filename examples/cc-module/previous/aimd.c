// SPDX-License-Identifier: GPL-2.0 OR MIT
/* aimd: Reno (RFC 5681) with the steps of its window as parameters. */
#include <linux/module.h>
#include <net/tcp.h>

#include "gostlab_cc.h"

/* Parameters: cc: "aimd(alpha=3)" */
static int alpha = 1;
module_param(alpha, int, 0444);
MODULE_PARM_DESC(alpha, "packets more per round trip");
static int beta = 50;
module_param(beta, int, 0444);
MODULE_PARM_DESC(beta, "percent of the window that a loss takes");

/* What each connection remembers: at most ICSK_CA_PRIV_SIZE (104) bytes, all zero at first. */
struct aimd {
	u32 acked; /* since the window last grew, packets */
	u32 losses;
};

/* A loss: the window to go on with. */
static u32 aimd_ssthresh(struct sock *sk)
{
	struct aimd *my = inet_csk_ca(sk);

	my->losses++;
	return max(tcp_snd_cwnd(tcp_sk(sk)) * (100 - beta) / 100, 2U);
}

/* An ACK for `acked` packets. */
static void aimd_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = tcp_sk(sk);
	struct aimd *my = inet_csk_ca(sk);

	if (gostlab_every_ack)
		GOSTLAB_SHOW(sk, "cwnd_pkts losses", tcp_snd_cwnd(tp), my->losses);
	if (!tcp_is_cwnd_limited(sk))
		return;
	if (tcp_in_slow_start(tp)) {
		tcp_slow_start(tp, acked);
		return;
	}
	my->acked += acked * alpha;
	if (my->acked >= tcp_snd_cwnd(tp)) {
		my->acked -= tcp_snd_cwnd(tp);
		tcp_snd_cwnd_set(tp, min(tcp_snd_cwnd(tp) + 1, tp->snd_cwnd_clamp));
	}
}

static struct tcp_congestion_ops aimd __read_mostly = {
	.name = "aimd",
	.owner = THIS_MODULE,
	.flags = TCP_CONG_NON_RESTRICTED, /* any host may have it */
	.ssthresh = aimd_ssthresh,
	.cong_avoid = aimd_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
};

static int __init aimd_register(void)
{
	BUILD_BUG_ON(sizeof(struct aimd) > ICSK_CA_PRIV_SIZE);
	return tcp_register_congestion_control(&aimd);
}
module_init(aimd_register);

static void __exit aimd_unregister(void)
{
	tcp_unregister_congestion_control(&aimd);
}
module_exit(aimd_unregister);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("AIMD with parameters");
