// SPDX-License-Identifier: GPL-2.0
/*
 * Costs of a program's own on the virtual clock.
 *
 * tt_syscall_ns and tt_byte_ps (cpucost.c) are what a call costs any program. A
 * process that writes
 *
 *	NAME CALL_NS BYTE_PS
 *
 * to /proc/net/program_cost has costs of its own from then on: its calls take
 *
 *	CALL_NS + BYTE_PS / 1000 * bytes moved, whole ns
 *
 * and so do those of all that it forks and executes. Nothing else changes: whose
 * CPU pays, and when, is as it was. Reading the file says what the processes that
 * joined there, in this network namespace, have been charged under each name.
 */

#include <linux/hashtable.h>
#include <linux/init.h>
#include <linux/kref.h>
#include <linux/list.h>
#include <linux/proc_fs.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/version.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <trace/events/sched.h>
#include "cpucost.h"

#define NAME_BYTES 32
#define MAX_NS NSEC_PER_SEC
#define MAX_PS (1000 * NSEC_PER_USEC)

/* A name and its costs on one host. */
struct program {
	struct list_head of_host;
	struct kref users;	/* its host, and its processes */
	char name[NAME_BYTES];
	unsigned int call_ns, byte_ps;
	u64 calls, bytes, busy_ns;
};

/* A process that has costs of its own. All its threads have them. */
struct member {
	struct hlist_node node;
	const struct signal_struct *process;
	struct program *program;
};

static DEFINE_HASHTABLE(members, 8);
static unsigned int member_count;
static DEFINE_SPINLOCK(programs_lock);
static unsigned int programs_id;	/* a list_head of each host's programs */

static void program_free(struct kref *users)
{
	kfree(container_of(users, struct program, users));
}

static struct member *member_of(const struct signal_struct *process)
{
	struct member *member;

	hash_for_each_possible(members, member, node, (unsigned long)process)
		if (member->process == process)
			return member;
	return NULL;
}

/* Make a process a member. Takes over one use of the program. */
static void join(struct member *member, const struct signal_struct *process,
		 struct program *program)
{
	member->process = process;
	member->program = program;
	hash_add(members, &member->node, (unsigned long)process);
	member_count++;
}

static void leave(struct member *member)
{
	hash_del(&member->node);
	member_count--;
	kref_put(&member->program->users, program_free);
	kfree(member);
}

/* -- what a call costs */

u64 tt_cost_of_call(u64 usual_ns, u64 bytes)
{
	struct member *member;
	unsigned long flags;

	if (!member_count)
		return usual_ns;
	spin_lock_irqsave(&programs_lock, flags);
	member = member_of(current->signal);
	if (member)
		usual_ns = member->program->call_ns +
			   bytes * member->program->byte_ps / 1000;
	spin_unlock_irqrestore(&programs_lock, flags);
	return usual_ns;
}

void tt_note_call(u64 cost_ns, u64 bytes)
{
	struct member *member;
	unsigned long flags;

	if (!member_count)
		return;
	spin_lock_irqsave(&programs_lock, flags);
	member = member_of(current->signal);
	if (member) {
		member->program->calls++;
		member->program->bytes += bytes;
		member->program->busy_ns += cost_ns;
	}
	spin_unlock_irqrestore(&programs_lock, flags);
}

/* -- who is charged */

static void on_fork(void *unused, struct task_struct *parent, struct task_struct *child)
{
	struct member *mine, *member;
	unsigned long flags;

	if (!member_count || child->signal == parent->signal)
		return;
	member = kmalloc(sizeof(*member), GFP_ATOMIC);
	if (!member) {
		pr_err("program_cost: no memory: a child has the usual costs\n");
		return;
	}
	spin_lock_irqsave(&programs_lock, flags);
	mine = member_of(parent->signal);
	if (mine) {
		kref_get(&mine->program->users);
		join(member, child->signal, mine->program);
	}
	spin_unlock_irqrestore(&programs_lock, flags);
	if (!mine)
		kfree(member);
}

static void leave_at_exit(struct task_struct *task, bool is_last_thread)
{
	struct member *member;
	unsigned long flags;

	if (!member_count || !is_last_thread)
		return;
	spin_lock_irqsave(&programs_lock, flags);
	member = member_of(task->signal);
	if (member)
		leave(member);
	spin_unlock_irqrestore(&programs_lock, flags);
}

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 16, 0)
static void on_exit(void *unused, struct task_struct *task, bool is_last_thread)
{
	leave_at_exit(task, is_last_thread);
}
#else
static void on_exit(void *unused, struct task_struct *task)
{
	leave_at_exit(task, !atomic_read(&task->signal->live));
}
#endif

/* The host's program of these costs, for one more user; NULL if there is none. */
static struct program *find_program(struct list_head *of_host, const struct program *asked)
{
	struct program *program;

	list_for_each_entry(program, of_host, of_host) {
		if (!strcmp(program->name, asked->name) &&
		    program->call_ns == asked->call_ns && program->byte_ps == asked->byte_ps) {
			kref_get(&program->users);
			return program;
		}
	}
	return NULL;
}

static int write_programs(struct file *file, char *text, size_t length)
{
	struct list_head *of_host = net_generic(seq_file_single_net(file->private_data), programs_id);
	struct program *program, *fresh = kzalloc(sizeof(*fresh), GFP_KERNEL);
	struct member *old, *member = kzalloc(sizeof(*member), GFP_KERNEL);
	unsigned long flags;
	char rest;
	int err = -ENOMEM;

	if (!fresh || !member)
		goto out;
	err = -EINVAL;
	if (sscanf(text, "%31s %u %u %c", fresh->name, &fresh->call_ns, &fresh->byte_ps, &rest) != 3)
		goto out;
	err = -ERANGE;
	if (fresh->call_ns > MAX_NS || fresh->byte_ps > MAX_PS)
		goto out;

	spin_lock_irqsave(&programs_lock, flags);
	program = find_program(of_host, fresh);
	if (!program) {
		program = fresh;
		fresh = NULL;
		kref_init(&program->users);	/* the host's */
		kref_get(&program->users);	/* the process's */
		list_add_tail(&program->of_host, of_host);
	}
	old = member_of(current->signal);
	if (old)
		leave(old);
	join(member, current->signal, program);
	member = NULL;
	spin_unlock_irqrestore(&programs_lock, flags);
	err = 0;
out:
	kfree(fresh);
	kfree(member);
	return err;
}

static int show_programs(struct seq_file *file, void *unused)
{
	struct list_head *of_host = net_generic(seq_file_single_net(file), programs_id);
	struct program *program;
	unsigned long flags;

	spin_lock_irqsave(&programs_lock, flags);
	list_for_each_entry(program, of_host, of_host)
		seq_printf(file, "%s call_ns %u byte_ps %u calls %llu bytes %llu busy_ns %llu\n",
			   program->name, program->call_ns, program->byte_ps,
			   program->calls, program->bytes, program->busy_ns);
	spin_unlock_irqrestore(&programs_lock, flags);
	return 0;
}

static int __net_init programs_init(struct net *net)
{
	INIT_LIST_HEAD((struct list_head *)net_generic(net, programs_id));
	if (!proc_create_net_single_write("program_cost", 0666, net->proc_net, show_programs,
					  write_programs, NULL))
		return -ENOMEM;
	return 0;
}

static void __net_exit programs_exit(struct net *net)
{
	struct list_head *of_host = net_generic(net, programs_id);
	struct program *program, *next;
	unsigned long flags;

	remove_proc_entry("program_cost", net->proc_net);
	spin_lock_irqsave(&programs_lock, flags);
	list_for_each_entry_safe(program, next, of_host, of_host) {
		list_del(&program->of_host);
		kref_put(&program->users, program_free);
	}
	spin_unlock_irqrestore(&programs_lock, flags);
}

static struct pernet_operations programs_operations = {
	.init = programs_init,
	.exit = programs_exit,
	.id = &programs_id,
	.size = sizeof(struct list_head),
};

static int __init programs_setup(void)
{
	int err = register_trace_sched_process_fork(on_fork, NULL);

	if (err)
		return err;
	err = register_trace_sched_process_exit(on_exit, NULL);
	if (err)
		goto no_exit;
	err = register_pernet_subsys(&programs_operations);
	if (err)
		goto no_files;
	return 0;

no_files:
	unregister_trace_sched_process_exit(on_exit, NULL);
no_exit:
	unregister_trace_sched_process_fork(on_fork, NULL);
	return err;
}
device_initcall(programs_setup);
