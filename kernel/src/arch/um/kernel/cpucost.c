// SPDX-License-Identifier: GPL-2.0
/*
 * What a system call and a packet cost on the virtual clock, and whose CPU pays
 * them.
 *
 * In time-travel=inf-cpu CPU work takes no time. Here a call takes
 *
 *	tt_syscall_ns + tt_byte_ps / 1000 * bytes moved
 *
 * ns after it has been carried out. With both 0, the stock behaviour, a receiver
 * is woken for every packet and reads it alone; a cost makes CPUs finite, yet the
 * same on every machine, and lets packets queue while a call "runs". A program may
 * have costs of its own instead (programs.c).
 *
 * Who pays: a host is a network namespace. With net.host.cpus = 0 (the default is
 * the boot word tt_host_cpus) it has no CPU of its own: the whole guest stands
 * still for the cost. With n > 0 it has n, and a call starts on the one that is
 * free first: start = max(now, the earliest free), end = start + cost. The task
 * sleeps until then, while all others run.
 *
 * Such a host pays net.host.packet_ns for every packet that comes in from outside,
 * for the interrupt in which the kernel receives it: on the CPU that is free first,
 * as a call does. The packet is delivered at once, and programs find the CPU busy.
 * What comes in on the host's loopback device is part of the call that sent it.
 *
 * With net.host.cpu_share_permille > 0 its CPUs have that many thousandths of one
 * CPU's time in the long run, as a cloud's shared-core machine has, and may be
 * net.host.cpu_burst_us of CPU time ahead of it: work starts when it is no further
 * ahead (the generic cell rate algorithm, ITU-T I.371).
 *
 * /proc/net/host_cpu says what a host has used.
 */

#include <linux/gostlab.h>
#include <linux/init.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/moduleparam.h>
#include <linux/netdevice.h>
#include <linux/nsproxy.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/skbuff.h>
#include <linux/socket.h>
#include <linux/spinlock.h>
#include <linux/sysctl.h>
#include <linux/time-internal.h>
#include <linux/uaccess.h>
#include <linux/version.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <trace/events/net.h>
#include <asm/delay.h>
#include <asm/unistd.h>
#include <sysdep/ptrace.h>
#include "cpucost.h"

#define MAX_CPUS 64

static unsigned long tt_syscall_ns;
core_param(tt_syscall_ns, tt_syscall_ns, ulong, 0644);

static unsigned long tt_byte_ps;
core_param(tt_byte_ps, tt_byte_ps, ulong, 0644);

static unsigned int tt_host_cpus;
core_param(tt_host_cpus, tt_host_cpus, uint, 0444);

struct host {
	spinlock_t lock;	/* of due_at to held_ns: calls and softirqs change them */
	unsigned int cpus;
	unsigned int packet_ns;
	unsigned int share_permille, burst_us;
	u64 due_at;		/* when the share has paid for all work so far */
	u64 free_at[MAX_CPUS];	/* when each CPU is free again */
	u64 calls, bytes, packets;
	u64 busy_ns;		/* what calls and packets cost */
	u64 packets_ns;		/* of it, what packets cost */
	u64 waited_ns;		/* how long calls waited for a CPU */
	u64 held_ns;		/* how long free CPUs waited for their share */
	struct ctl_table_header *sysctl;
};

static unsigned int host_id;
static bool is_ready;		/* host_id holds */
static const unsigned int max_cpus = MAX_CPUS;
static const unsigned int max_packet_ns = NSEC_PER_SEC;
static const unsigned int max_permille = MAX_CPUS * 1000;

/* Messages are counted by sendmmsg and recvmmsg, their bytes are in each one. */
static u64 bytes_of_messages(const struct mmsghdr __user *messages, long count)
{
	u64 bytes = 0;
	long i;

	for (i = 0; i < count; i++) {
		unsigned int length;

		if (get_user(length, &messages[i].msg_len))
			break;
		bytes += length;
	}
	return bytes;
}

static u64 bytes_moved(struct uml_pt_regs *r, int syscall, long ret)
{
	if (ret <= 0)
		return 0;

	switch (syscall) {
	case __NR_read:
	case __NR_pread64:
	case __NR_readv:
	case __NR_preadv:
	case __NR_preadv2:
	case __NR_recvfrom:
	case __NR_recvmsg:
	case __NR_write:
	case __NR_pwrite64:
	case __NR_writev:
	case __NR_pwritev:
	case __NR_pwritev2:
	case __NR_sendto:
	case __NR_sendmsg:
	case __NR_sendfile:
	case __NR_splice:
	case __NR_copy_file_range:
		return ret;
	case __NR_sendmmsg:
	case __NR_recvmmsg:
		return bytes_of_messages((void __user *)UPT_SYSCALL_ARG2(r), ret);
	default:
		return 0;
	}
}

static struct host *host_of_current(void)
{
	if (!is_ready || !current->nsproxy)
		return NULL;
	return net_generic(current->nsproxy->net_ns, host_id);
}

static u64 *earliest_free(struct host *host)
{
	u64 *earliest = host->free_at;
	unsigned int i;

	for (i = 1; i < host->cpus; i++)
		if (host->free_at[i] < *earliest)
			earliest = &host->free_at[i];
	return earliest;
}

/* Put work on the CPU that is free first: how long it waits there, and when it ends. */
static u64 occupy(struct host *host, u64 now, u64 cost, u64 *end)
{
	u64 *cpu = earliest_free(host);
	u64 start = max(*cpu, now);

	if (host->share_permille) {
		u64 ahead = div_u64((u64)host->burst_us * 1000000, host->share_permille);
		u64 allowed = host->due_at > ahead ? host->due_at - ahead : 0;

		if (allowed > start) {
			host->held_ns += allowed - start;
			start = allowed;
		}
		host->due_at = max(host->due_at, start) + div_u64(cost * 1000, host->share_permille);
	}
	*end = *cpu = start + cost;
	return start - now;
}

/* Whether every call of this task costs time of its host's own CPUs. */
bool tt_host_pays(void)
{
	struct host *host = host_of_current();

	return host && host->cpus && time_travel_mode == TT_MODE_INFCPU &&
	       tt_cost_of_call(tt_syscall_ns, 0);
}

/* Charge a call that has been carried out. */
void tt_pay_for_call(struct uml_pt_regs *r, int syscall, unsigned long ret)
{
	struct host *host = host_of_current();
	u64 bytes, cost, now, end;
	unsigned long flags;

	bytes = bytes_moved(r, syscall, ret);
	cost = tt_cost_of_call(tt_syscall_ns + bytes * tt_byte_ps / 1000, bytes);
	if (!cost)
		return;

	tt_note_call(cost, bytes);
	if (!host) {
		ndelay(cost);
		return;
	}

	spin_lock_irqsave(&host->lock, flags);
	host->calls++;
	host->bytes += bytes;
	host->busy_ns += cost;
	now = time_travel_now();
	end = 0;
	if (host->cpus)
		host->waited_ns += occupy(host, now, cost, &end);
	spin_unlock_irqrestore(&host->lock, flags);

	if (!end)
		ndelay(cost);
	else if (end > now)
		time_travel_sleep_until(end);
}

/*
 * Charge a packet that its host's kernel receives: one that GRO has merged is one. It is
 * a probe of the tracepoint netif_receive_skb, where the packet's way up begins.
 */
static void pay_for_packet(void *unused, struct sk_buff *skb)
{
	struct host *host;
	unsigned long flags;
	u64 end;

	if (skb->dev->flags & IFF_LOOPBACK)
		return;
	host = net_generic(dev_net(skb->dev), host_id);
	if (!host->packet_ns || !host->cpus || time_travel_mode != TT_MODE_INFCPU)
		return;

	spin_lock_irqsave(&host->lock, flags);
	host->packets++;
	host->busy_ns += host->packet_ns;
	host->packets_ns += host->packet_ns;
	occupy(host, time_travel_now(), host->packet_ns, &end);
	spin_unlock_irqrestore(&host->lock, flags);
}

/* What of a host's work has been promised and still lies ahead. */
static u64 ahead_ns(const struct host *host, u64 now)
{
	u64 ahead = 0;
	unsigned int i;

	for (i = 0; i < host->cpus; i++)
		if (host->free_at[i] > now)
			ahead += host->free_at[i] - now;
	return ahead;
}

static int show_host(struct seq_file *file, void *unused)
{
	struct host *host = net_generic(seq_file_single_net(file), host_id);
	u64 now = time_travel_now();

	seq_printf(file,
		   "cpus %u\nnow_ns %llu\ncalls %llu\nbytes %llu\nbusy_ns %llu\nwaited_ns %llu\n",
		   host->cpus, now, host->calls, host->bytes,
		   host->busy_ns - ahead_ns(host, now), host->waited_ns);
	seq_printf(file, "packet_ns %u\npackets %llu\npackets_busy_ns %llu\n",
		   host->packet_ns, host->packets, host->packets_ns);
	if (host->share_permille)
		seq_printf(file, "share_permille %u\nburst_us %u\nheld_ns %llu\n",
			   host->share_permille, host->burst_us, host->held_ns);
	return 0;
}

static const struct ctl_table host_sysctls[] = {
	{
		.procname	= "cpus",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= (void *)&max_cpus,
	},
	{
		.procname	= "packet_ns",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= (void *)&max_packet_ns,
	},
	{
		.procname	= "cpu_share_permille",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec_minmax,
		.extra1		= SYSCTL_ZERO,
		.extra2		= (void *)&max_permille,
	},
	{
		.procname	= "cpu_burst_us",
		.maxlen		= sizeof(unsigned int),
		.mode		= 0644,
		.proc_handler	= proc_douintvec,
	},
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 6, 0)
	{ }	/* a table ends with an empty line */
#endif
};

static int __net_init host_init(struct net *net)
{
	struct host *host = net_generic(net, host_id);
	struct ctl_table *table = kmemdup(host_sysctls, sizeof(host_sysctls), GFP_KERNEL);

	if (!table)
		return -ENOMEM;

	spin_lock_init(&host->lock);
	host->cpus = min(tt_host_cpus, max_cpus);
	table[0].data = &host->cpus;
	table[1].data = &host->packet_ns;
	table[2].data = &host->share_permille;
	table[3].data = &host->burst_us;
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 6, 0)
	host->sysctl = register_net_sysctl(net, "net/host", table);
#else
	host->sysctl = register_net_sysctl_sz(net, "net/host", table, ARRAY_SIZE(host_sysctls));
#endif
	if (!host->sysctl) {
		kfree(table);
		return -ENOMEM;
	}
	if (!proc_create_net_single("host_cpu", 0444, net->proc_net, show_host, NULL)) {
		unregister_net_sysctl_table(host->sysctl);
		kfree(table);
		return -ENOMEM;
	}
	return 0;
}

static void __net_exit host_exit(struct net *net)
{
	struct host *host = net_generic(net, host_id);
	const struct ctl_table *table = host->sysctl->ctl_table_arg;

	remove_proc_entry("host_cpu", net->proc_net);
	unregister_net_sysctl_table(host->sysctl);
	kfree(table);
}

static struct pernet_operations host_operations = {
	.init = host_init,
	.exit = host_exit,
	.id = &host_id,
	.size = sizeof(struct host),
};

static int __init hosts_setup(void)
{
	int err = register_pernet_subsys(&host_operations);

	if (err)
		return err;
	err = register_trace_netif_receive_skb(pay_for_packet, NULL);
	if (err) {
		unregister_pernet_subsys(&host_operations);
		return err;
	}
	is_ready = true;
	return 0;
}
device_initcall(hosts_setup);
