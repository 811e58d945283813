// SPDX-License-Identifier: GPL-2.0
/*
 * Record the packets of network devices in pcapng files on the host.
 *
 * A line written to /sys/module/gostlab_capture/parameters/tap is a command:
 *
 *   PID DEVICE FILE SNAPLEN IN OUT [PORTS]
 *           record what DEVICE, in the network namespace of process PID, receives and sends; append
 *           it to FILE of the run's folder, at most SNAPLEN bytes of a packet
 *   stop    stop recording and write what is left
 *
 * A record is an Enhanced Packet Block (draft-ietf-opsawg-pcapng) with the time in nanoseconds; its
 * interface is number IN of FILE if the device received the packet, OUT if it sent it. PORTS (443
 * or 443,2000-2099) restricts the records to TCP and UDP from and to these ports; the interface is
 * then IN for packets from them and OUT for packets to them. Whoever writes the command has written
 * the blocks of section and interfaces to FILE before. Several devices may share a file.
 *
 * Reading gives a line per file, each once, as many as fit: name, packets, bytes on the wire,
 * packets lost, errno of the write that failed (0: none), and the size of the file up to which it
 * has whole blocks. After a failed write nothing more is written to that file, and its further
 * packets are counted as lost.
 *
 * Records are written by calls of the host, with interrupts disabled: the virtual clock stands
 * still meanwhile, no program of the guest is woken, and no random number is drawn, so that a run
 * is the same with and without a capture.
 */
#include <linux/bitmap.h>
#include <linux/if_arp.h>
#include <linux/ip.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/notifier.h>
#include <linux/rtnetlink.h>
#include <linux/skbuff.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/vmalloc.h>
#include <net/net_namespace.h>
#include <os.h>

#define BUFFER_BYTES (1 << 16)
#define MAX_SNAPLEN 65535
#define PORT_COUNT 65536
#define MAX_LINE 256
#define ENHANCED_PACKET_BLOCK 6

struct packet_block {
	u32 type, block_bytes, interface, time_high, time_low, captured, original;
};

struct sink {
	struct list_head list;
	char name[100];
	int fd;
	int error;
	bool reported;
	u32 used;	/* bytes in the buffer */
	u32 buffered;	/* packets in the buffer */
	u64 packets, bytes, lost, file_bytes;
	u8 *buffer;
};

struct tap {
	struct list_head list;
	struct packet_type type;
	struct sink *sink;
	u32 snaplen, in, out;
	unsigned long *ports;	/* NULL: any packet */
};

static LIST_HEAD(sinks);
static LIST_HEAD(taps);

static void flush(struct sink *sink)
{
	u32 written = 0;

	while (!sink->error && written < sink->used) {
		int count = os_write_file(sink->fd, sink->buffer + written, sink->used - written);

		if (count > 0)
			written += count;
		else if (count != -EINTR)
			sink->error = count ? -count : EIO;
	}
	if (sink->error) {
		sink->packets -= sink->buffered;
		sink->lost += sink->buffered;
	} else {
		sink->file_bytes += written;
	}
	sink->used = 0;
	sink->buffered = 0;
}

/* Return the number of a packet's interface in the file, or -1 if it is not to be recorded. */
static int interface_of(const struct tap *tap, const struct sk_buff *skb)
{
	bool is_sent = skb->pkt_type == PACKET_OUTGOING;
	int offset = skb_network_offset(skb);
	const struct iphdr *ip;
	const __be16 *ports;
	struct iphdr ip_copy;
	__be16 ports_copy[2];

	/* The loopback device receives all that it sends. */
	if (is_sent && skb->dev->flags & IFF_LOOPBACK)
		return -1;
	if (!tap->ports)
		return is_sent ? tap->out : tap->in;
	if (skb->protocol != htons(ETH_P_IP))
		return -1;
	ip = skb_header_pointer(skb, offset, sizeof(ip_copy), &ip_copy);
	if (!ip || (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_UDP))
		return -1;
	ports = skb_header_pointer(skb, offset + 4 * ip->ihl, sizeof(ports_copy), ports_copy);
	if (!ports)
		return -1;
	if (test_bit(ntohs(ports[1]), tap->ports))
		return tap->out;
	return test_bit(ntohs(ports[0]), tap->ports) ? tap->in : -1;
}

static void record(struct tap *tap, const struct sk_buff *skb, u32 interface)
{
	u32 header_bytes = skb->data - skb_mac_header(skb);
	u32 original = skb->len + header_bytes;
	u32 captured = min(original, tap->snaplen), padded = ALIGN(captured, 4);
	u32 block_bytes = sizeof(struct packet_block) + padded + sizeof(u32);
	struct sink *sink = tap->sink;
	struct packet_block *block;
	u8 *data;
	u64 now_ns;

	if (sink->used + block_bytes > BUFFER_BYTES)
		flush(sink);
	if (sink->error) {
		sink->lost++;
		return;
	}
	now_ns = ktime_get_real_ns();
	block = (struct packet_block *)(sink->buffer + sink->used);
	*block = (struct packet_block){
		.type = ENHANCED_PACKET_BLOCK, .block_bytes = block_bytes, .interface = interface,
		.time_high = now_ns >> 32, .time_low = now_ns,
		.captured = captured, .original = original,
	};
	data = (u8 *)(block + 1);
	if (skb_copy_bits(skb, -(int)header_bytes, data, captured)) {
		sink->lost++;
		return;
	}
	memset(data + captured, 0, padded - captured);
	*(u32 *)(data + padded) = block_bytes;
	sink->used += block_bytes;
	sink->buffered++;
	sink->packets++;
	sink->bytes += original;
}

static int on_packet(struct sk_buff *skb, struct net_device *dev, struct packet_type *type,
		     struct net_device *orig_dev)
{
	struct tap *tap = container_of(type, struct tap, type);
	int interface = interface_of(tap, skb);
	unsigned long flags;

	if (interface >= 0) {
		local_irq_save(flags);	/* so that the clock read takes no virtual time */
		record(tap, skb, interface);
		local_irq_restore(flags);
	}
	consume_skb(skb);
	return 0;
}

static struct sink *open_sink(const char *name)
{
	unsigned long long file_bytes;
	struct sink *sink;
	char path[128];

	list_for_each_entry(sink, &sinks, list)
		if (!strcmp(sink->name, name))
			return sink;
	snprintf(path, sizeof(path), "/proc/self/cwd/%s", name);
	if (os_file_size(path, &file_bytes) < 0)
		return ERR_PTR(-ENOENT);
	sink = kzalloc(sizeof(*sink), GFP_KERNEL);
	if (!sink)
		return ERR_PTR(-ENOMEM);
	sink->buffer = vmalloc(BUFFER_BYTES);
	sink->fd = os_open_file(path, of_append(of_write(OPENFLAGS())), 0);
	if (!sink->buffer || sink->fd < 0) {
		int error = sink->buffer ? sink->fd : -ENOMEM;

		vfree(sink->buffer);
		kfree(sink);
		return ERR_PTR(error);
	}
	strscpy(sink->name, name, sizeof(sink->name));
	sink->file_bytes = file_bytes;
	list_add_tail(&sink->list, &sinks);
	return sink;
}

static void remove_tap(struct tap *tap)
{
	bitmap_free(tap->ports);
	kfree(tap);
}

static int start(int pid, const char *device, const char *file, u32 snaplen, u32 in, u32 out,
		 const char *ports)
{
	struct tap *tap = kzalloc(sizeof(*tap), GFP_KERNEL);
	struct net_device *dev;
	struct net *net;
	int error = -ENOMEM;

	if (!tap)
		return -ENOMEM;
	if (*ports) {
		tap->ports = bitmap_zalloc(PORT_COUNT, GFP_KERNEL);
		error = tap->ports ? bitmap_parselist(ports, tap->ports, PORT_COUNT) : -ENOMEM;
		if (error)
			goto failed;
	}
	tap->sink = open_sink(file);
	error = PTR_ERR_OR_ZERO(tap->sink);
	if (error)
		goto failed;
	net = get_net_ns_by_pid(pid);
	error = PTR_ERR_OR_ZERO(net);
	if (error)
		goto failed;
	rtnl_lock();
	dev = __dev_get_by_name(net, device);
	put_net(net);
	if (!dev) {
		rtnl_unlock();
		error = -ENODEV;
		goto failed;
	}
	tap->snaplen = snaplen;
	tap->in = in;
	tap->out = out;
	tap->type.type = htons(ETH_P_ALL);
	tap->type.dev = dev;
	tap->type.func = on_packet;
	dev_add_pack(&tap->type);
	list_add_tail(&tap->list, &taps);
	rtnl_unlock();
	return 0;
failed:
	remove_tap(tap);
	return error;
}

static void detach(struct tap *tap)
{
	if (tap->type.dev)
		__dev_remove_pack(&tap->type);
	tap->type.dev = NULL;
}

/* A device may be gone before the end: that of a VPN goes with its program. */
static int on_device(struct notifier_block *block, unsigned long event, void *data)
{
	struct net_device *dev = netdev_notifier_info_to_dev(data);
	struct tap *tap;

	if (event == NETDEV_UNREGISTER)
		list_for_each_entry(tap, &taps, list)
			if (tap->type.dev == dev)
				detach(tap);
	return NOTIFY_DONE;
}

static struct notifier_block device_block = { .notifier_call = on_device };

/* The counts of the files remain, so that they can be read. */
static void stop(void)
{
	struct tap *tap, *next;
	struct sink *sink;

	rtnl_lock();
	list_for_each_entry(tap, &taps, list)
		detach(tap);
	rtnl_unlock();
	synchronize_net();
	list_for_each_entry_safe(tap, next, &taps, list) {
		list_del(&tap->list);
		remove_tap(tap);
	}
	list_for_each_entry(sink, &sinks, list) {
		if (sink->fd < 0)
			continue;
		flush(sink);
		os_close_file(sink->fd);
		sink->fd = -1;
		vfree(sink->buffer);
		sink->buffer = NULL;
	}
}

static int set_tap(const char *text, const struct kernel_param *param)
{
	char device[IFNAMSIZ], file[100], ports[512] = "";
	unsigned int snaplen, in, out;
	int pid;

	if (sysfs_streq(text, "stop")) {
		stop();
		return 0;
	}
	if (sscanf(text, "%d %15s %99s %u %u %u %511s", &pid, device, file, &snaplen, &in, &out,
		   ports) < 6)
		return -EINVAL;
	if (!snaplen || snaplen > MAX_SNAPLEN || strchr(file, '/'))
		return -EINVAL;
	return start(pid, device, file, snaplen, in, out, ports);
}

static int get_tap(char *text, const struct kernel_param *param)
{
	struct sink *sink;
	int length = 0;

	list_for_each_entry(sink, &sinks, list) {
		if (sink->reported)
			continue;
		if (length + MAX_LINE > PAGE_SIZE)
			break;
		length += scnprintf(text + length, MAX_LINE, "%s %llu %llu %llu %d %llu\n",
				    sink->name, sink->packets, sink->bytes, sink->lost, sink->error,
				    sink->file_bytes);
		sink->reported = true;
	}
	return length;
}

static const struct kernel_param_ops tap_ops = { .set = set_tap, .get = get_tap };
module_param_cb(tap, &tap_ops, NULL, 0600);

static int __init capture_init(void)
{
	return register_netdevice_notifier(&device_block);
}

static void __exit capture_exit(void)
{
	struct sink *sink, *next;

	unregister_netdevice_notifier(&device_block);
	stop();
	list_for_each_entry_safe(sink, next, &sinks, list)
		kfree(sink);
}

module_init(capture_init);
module_exit(capture_exit);
MODULE_DESCRIPTION("Record packets in pcapng files on the host");
MODULE_LICENSE("GPL");
