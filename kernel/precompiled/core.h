/* What most files of a kernel begin with (precompiled/cc). */
#include <linux/kconfig.h>
#include <linux/compiler_types.h>
#include <linux/module.h>
#include <linux/fs.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/interrupt.h>
#include <linux/kthread.h>
#include <linux/device.h>
#include <linux/vmalloc.h>
#include <linux/file.h>
#include <linux/security.h>
