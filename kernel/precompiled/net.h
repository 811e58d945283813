/* What most files of the network begin with (precompiled/cc). */
#include "core.h"

/* Functions for network cards complain by it. No card here has them. */
#define KBUILD_MODNAME "precompiled"
#include <linux/skbuff.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/etherdevice.h>
#include <net/sock.h>
#include <net/tcp.h>
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/netlink.h>
#include <net/rtnetlink.h>
#undef KBUILD_MODNAME
