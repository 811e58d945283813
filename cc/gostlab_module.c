// SPDX-License-Identifier: GPL-2.0 OR MIT
/*
 * The lab's half of every congestion control that it compiles: which name it is registered by, and
 * the way out for what it says of its state (gostlab_cc.h).
 *
 * Parameters, beside those of the control's own file:
 *   gostlab_as=own:other   of the controls in the file only `own` is registered, and is called
 *                          `other`; so one file can be there twice, with other parameters
 *   gostlab_every_ack=1    the control is to show its state at every ACK
 *
 * /proc/gostlab-<module> has a line for each time that the state was shown: the time in ns
 * (CLOCK_MONOTONIC), local and remote address, the names, a tab, the values. Reading takes the
 * lines away; nothing is kept while nobody has the file open. A line `lost N` stands where N lines
 * found no room.
 */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/vmalloc.h>
#include <linux/inet.h>
#include <net/tcp.h>

#include "gostlab_cc.h"

#define RING_WORDS (1U << 19)
#define HEAD_WORDS 4
#define MOST_TEXT 2048

static char *gostlab_as;
module_param(gostlab_as, charp, 0444);
bool gostlab_every_ack;
module_param(gostlab_every_ack, bool, 0644);

bool gostlab_watched;

static DEFINE_SPINLOCK(ring_lock);
static u64 *ring;
static u32 ring_head, ring_tail; /* words written and read, modulo 2^32 */
static u64 lost;

int gostlab_register_congestion_control(struct tcp_congestion_ops *ca);
void gostlab_unregister_congestion_control(struct tcp_congestion_ops *ca);

static void put_word(u64 word)
{
	ring[ring_head++ % RING_WORDS] = word;
}

static u64 take_word(void)
{
	return ring[ring_tail++ % RING_WORDS];
}

void gostlab_show(const struct sock *sk, const char *names, const s64 *values, unsigned int count)
{
	const struct inet_sock *inet = inet_sk(sk);
	unsigned long flags;
	unsigned int i;

	spin_lock_irqsave(&ring_lock, flags);
	if (!ring || RING_WORDS - (ring_head - ring_tail) < HEAD_WORDS + count) {
		lost++;
		goto out;
	}
	put_word(ktime_get_ns());
	put_word((u64)(__force u32)inet->inet_saddr << 32 | (__force u32)inet->inet_daddr);
	put_word((u64)ntohs(inet->inet_sport) << 32 | (u64)ntohs(inet->inet_dport) << 16 | count);
	put_word((u64)(unsigned long)names);
	for (i = 0; i < count; i++)
		put_word(values[i]);
out:
	spin_unlock_irqrestore(&ring_lock, flags);
}

static int state_open(struct inode *inode, struct file *file)
{
	u64 *made = vmalloc(RING_WORDS * sizeof(u64));
	int err = -EBUSY;

	if (!made)
		return -ENOMEM;
	spin_lock_irq(&ring_lock);
	if (!ring) {
		ring = made;
		ring_head = ring_tail = 0;
		lost = 0;
		gostlab_watched = true;
		err = 0;
	}
	spin_unlock_irq(&ring_lock);
	if (err)
		vfree(made);
	return err;
}

static int state_release(struct inode *inode, struct file *file)
{
	u64 *old;

	spin_lock_irq(&ring_lock);
	gostlab_watched = false;
	old = ring;
	ring = NULL;
	spin_unlock_irq(&ring_lock);
	vfree(old);
	return 0;
}

/* The oldest line, as text; 0 if there is none. */
static int take_line(char *text)
{
	u64 time, addresses, ports, words[GOSTLAB_MOST_VALUES];
	unsigned int i, count;
	const char *names;
	u32 local, peer;
	int length;

	spin_lock_irq(&ring_lock);
	if (ring_head == ring_tail) {
		u64 gone = lost;

		lost = 0;
		spin_unlock_irq(&ring_lock);
		return gone ? scnprintf(text, MOST_TEXT, "lost %llu\n", gone) : 0;
	}
	time = take_word();
	addresses = take_word();
	ports = take_word();
	names = (const char *)(unsigned long)take_word();
	count = ports & 0xffff;
	for (i = 0; i < count; i++)
		words[i] = take_word();
	spin_unlock_irq(&ring_lock);
	local = addresses >> 32;
	peer = (u32)addresses;
	length = scnprintf(text, MOST_TEXT, "%llu %pI4:%u %pI4:%u %s\t", time, &local,
			   (unsigned int)(ports >> 32), &peer,
			   (unsigned int)(ports >> 16 & 0xffff), names);
	for (i = 0; i < count; i++)
		length += scnprintf(text + length, MOST_TEXT - length, i ? " %lld" : "%lld",
				    (s64)words[i]);
	length += scnprintf(text + length, MOST_TEXT - length, "\n");
	return length;
}

static ssize_t state_read(struct file *file, char __user *to, size_t size, loff_t *offset)
{
	char *text = kmalloc(MOST_TEXT, GFP_KERNEL);
	ssize_t done = 0;
	int length;

	if (!text)
		return -ENOMEM;
	while (size - done >= MOST_TEXT && (length = take_line(text))) {
		if (copy_to_user(to + done, text, length)) {
			done = -EFAULT;
			break;
		}
		done += length;
	}
	kfree(text);
	return done;
}

static const struct proc_ops state_file = {
	.proc_open = state_open,
	.proc_read = state_read,
	.proc_release = state_release,
	.proc_lseek = noop_llseek,
};

/* The module's file is there while any of its controls is registered. */
static unsigned int registered;
static struct proc_dir_entry *state_entry;

int gostlab_register_congestion_control(struct tcp_congestion_ops *ca)
{
	char name[MODULE_NAME_LEN + 8];
	int err;

	if (gostlab_as) {
		const char *colon = strchr(gostlab_as, ':');
		size_t length = colon ? colon - gostlab_as : 0;

		if (!length || strlen(ca->name) != length || strncmp(ca->name, gostlab_as, length))
			return 0;
		strscpy(ca->name, colon + 1, TCP_CA_NAME_MAX);
	}
	err = tcp_register_congestion_control(ca);
	if (err)
		return err;
	if (!registered++) {
		snprintf(name, sizeof(name), "gostlab-%s", THIS_MODULE->name);
		state_entry = proc_create(name, 0400, NULL, &state_file);
	}
	return 0;
}

void gostlab_unregister_congestion_control(struct tcp_congestion_ops *ca)
{
	if (!ca->list.next) /* gostlab_as left it out */
		return;
	if (!--registered)
		proc_remove(state_entry); /* or NULL, where there was no memory for one */
	tcp_unregister_congestion_control(ca);
	ca->list.next = NULL;
}
