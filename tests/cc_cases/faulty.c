// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * Congestion controls with a bug each, which `./lab cc test` must find: compiled with NEVER_GROWS
 * the window stays as it begins; without, a loss takes nothing of it.
 */
#include <linux/module.h>
#include <net/tcp.h>

#ifdef NEVER_GROWS
#define NAME "nevergrows"
#else
#define NAME "neveryields"
#endif

static u32 faulty_ssthresh(struct sock *sk)
{
#ifdef NEVER_GROWS
	return max(tcp_snd_cwnd(tcp_sk(sk)) / 2, 2U);
#else
	return tcp_snd_cwnd(tcp_sk(sk));
#endif
}

static void faulty_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
#ifndef NEVER_GROWS
	if (tcp_is_cwnd_limited(sk))
		tcp_slow_start(tcp_sk(sk), acked);
#endif
}

static struct tcp_congestion_ops faulty __read_mostly = {
	.name = NAME,
	.owner = THIS_MODULE,
	.flags = TCP_CONG_NON_RESTRICTED,
	.ssthresh = faulty_ssthresh,
	.cong_avoid = faulty_cong_avoid,
	.undo_cwnd = tcp_reno_undo_cwnd,
};

static int __init faulty_register(void)
{
	return tcp_register_congestion_control(&faulty);
}
module_init(faulty_register);

static void __exit faulty_unregister(void)
{
	tcp_unregister_congestion_control(&faulty);
}
module_exit(faulty_unregister);

MODULE_LICENSE("Dual MIT/GPL");
MODULE_DESCRIPTION("A congestion control with a bug");
