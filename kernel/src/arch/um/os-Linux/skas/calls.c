// SPDX-License-Identifier: GPL-2.0
/*
 * Calls of programs without ptrace, on the virtual clock.
 *
 * A program's host process stopped at every call, and the kernel took its registers
 * out, put them back and let it go: four calls to the host. With a seccomp filter that
 * notifies, the process waits inside the host's call instead. The kernel is told the
 * call's number and arguments by one call of its own, and gives the answer by another.
 *
 * The other registers stay in the process until somebody wants them: a signal's frame,
 * a fork, work in the process itself. Then a SIGSTOP ends the waiting, and the process
 * is stopped for ptrace as ever (stop_userspace). Faults and signals stop it for
 * ptrace, too; SIGCHLD says so. Another thread of the same program goes on in a process
 * of its own, which shares the address space (take_seat).
 *
 * The filter lets pass what the stub's code calls, and of that what the stub needs.
 * Where the host refuses the filter all goes on by ptrace.
 */

#include <stddef.h>
#include <unistd.h>
#include <sched.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/ucontext.h>
#include <sys/wait.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <as-layout.h>
#include <init.h>
#include <kern_util.h>
#include <mem.h>
#include <os.h>
#include <ptrace_user.h>
#include <registers.h>
#include <skas.h>
#include <sysdep/ptrace.h>
#include <sysdep/stub.h>
#include <um_malloc.h>

/* Where the notices of processes arrive: of one started by the kernel, and its copies. */
struct listener {
	int fd;
	int users;
};

#define STRING_OF(x) #x
#define STRING(x) STRING_OF(x)

#ifndef STUB_DATA_PAGES
#define STUB_DATA_PAGES 1
#endif

#define LOAD(field, more) \
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field) + (more))
#define ALLOW_CALL(nr) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), \
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

/*
 * In a process that the kernel has started, before it runs a program: notices go to
 * the kernel, which shares its table of files. Stops with the descriptor, or minus the
 * error, in its first register.
 */
void notify_of_calls(void)
{
	/* An instruction's address comes in two halves, the lower first. */
	struct sock_filter filter[] = {
		LOAD(instruction_pointer, 4),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, STUB_CODE >> 32, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		LOAD(instruction_pointer, 0),
		BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (unsigned int) STUB_CODE, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K,
			 (unsigned int) STUB_CODE + UM_KERN_PAGE_SIZE, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
		LOAD(nr, 0),
		ALLOW_CALL(STUB_MMAP_NR),
		ALLOW_CALL(__NR_munmap),
		ALLOW_CALL(__NR_mprotect),
		ALLOW_CALL(__NR_clone),
		ALLOW_CALL(__NR_prctl),
		ALLOW_CALL(__NR_getppid),
		ALLOW_CALL(__NR_ptrace),
		ALLOW_CALL(__NR_modify_ldt),
		ALLOW_CALL(__NR_sigaltstack),
		ALLOW_CALL(__NR_exit),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
	};
	struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(filter[0]),
		.filter = filter,
	};
	long fd = -1;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
		fd = syscall(__NR_seccomp, SECCOMP_SET_MODE_FILTER,
			     SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
	asm volatile("int3" : : "a" (fd));
}

static volatile sig_atomic_t child_stopped;

/* The stretch of code in which a stop must not be missed: see next_notice(). */
extern const char notice_from[], notice_to[];

static void child_handler(int sig, siginfo_t *info, void *context)
{
	greg_t *gregs = ((ucontext_t *) context)->uc_mcontext.gregs;
	unsigned long at = gregs[REG_RIP];

	child_stopped = 1;
	if (at >= (unsigned long) notice_from && at < (unsigned long) notice_to) {
		gregs[REG_RIP] = (unsigned long) notice_to;
		gregs[REG_RAX] = -EINTR;
	}
}

/*
 * The next notice; -EINTR if a process stops. A stop between the look at child_stopped
 * and the wait would be slept through: the handler takes this code to its end then.
 */
static noinline long next_notice(int fd, struct seccomp_notif *notice)
{
	long ret = -EINTR;

	asm volatile(".globl notice_from, notice_to\n"
		     "notice_from:\n\t"
		     "cmpl $0, %[stopped]\n\t"
		     "jne notice_to\n\t"
		     "movl %[ioctl], %%eax\n\t"
		     "syscall\n"
		     "notice_to:\n"
		     : "+a" (ret)
		     : [stopped] "m" (child_stopped), [ioctl] "i" (__NR_ioctl),
		       "D" ((long) fd), "S" (SECCOMP_IOCTL_NOTIF_RECV), "d" (notice)
		     : "rcx", "r11", "cc", "memory");
	return ret;
}

static void lost(int pid, const char *what)
{
	printk(UM_KERN_ERR "calls: process %d %s, errno = %d\n", pid, what, errno);
	fatal_sigsegv();
}

/* The signal that a process stops by. */
static int next_stop(int pid)
{
	int n, status;

	CATCH_EINTR(n = waitpid(pid, &status, WUNTRACED | __WALL));
	if (n < 0 || !WIFSTOPPED(status))
		lost(pid, "has ended");
	return WSTOPSIG(status);
}

/* Where a process that was just started puts its notices, or NULL. */
struct listener *listen_to_calls(int pid)
{
	static int is_handled;
	struct sigaction action = {
		.sa_sigaction = child_handler,
		.sa_flags = SA_SIGINFO | SA_ONSTACK,
	};
	unsigned long regs[MAX_REG_NR];
	struct listener *listener;

	do {
		if (ptrace(PTRACE_CONT, pid, 0, 0))
			lost(pid, "does not begin");
	} while (next_stop(pid) != SIGTRAP);
	if (ptrace_getregs(pid, regs))
		lost(pid, "does not give its registers");
	if ((long) regs[HOST_AX] < 0)
		return NULL;
	listener = uml_kmalloc(sizeof(*listener), UM_GFP_ATOMIC);
	if (!listener)
		panic("no memory to be told of programs' calls");
	*listener = ((struct listener) { .fd = regs[HOST_AX], .users = 1 });

	if (!is_handled) {
		sigfillset(&action.sa_mask);
		if (sigaction(SIGCHLD, &action, NULL))
			panic("sigaction failed - errno = %d\n", errno);
		is_handled = 1;
	}
	return listener;
}

struct listener *share_listener(struct listener *listener)
{
	if (listener)
		listener->users++;
	return listener;
}

void leave_listener(struct listener *listener)
{
	if (listener && !--listener->users) {
		close(listener->fd);
		kfree(listener);
	}
}

/* Nobody is told of the call in which a process waits: the task is gone, or all is. */
void forget_call(struct uml_pt_regs *regs)
{
	if (regs->called_at)
		regs->called_at->caller = NULL;
	regs->called_at = NULL;
}

/* The process is stopped for ptrace, and its registers are its caller's. */
void stop_userspace(struct seat *seat)
{
	static const int told[] = {
		HOST_AX, HOST_ORIG_AX, HOST_IP,
		HOST_DI, HOST_SI, HOST_DX, HOST_R10, HOST_R8, HOST_R9,
	};
	struct uml_pt_regs *caller = seat->caller;
	unsigned long known[MAX_REG_NR];
	int i, pid = seat->pid;

	if (!seat->is_calling)
		return;
	seat->is_calling = 0;
	if (syscall(__NR_tkill, pid, SIGSTOP))
		lost(pid, "is not told to stop");
	/* By this one, or by somebody else's before it: then this one is passed over later. */
	next_stop(pid);
	if (!caller)
		return;

	memcpy(known, caller->gp, sizeof(known));
	if (ptrace_getregs(pid, caller->gp))
		lost(pid, "does not give its registers");
	for (i = 0; i < sizeof(told) / sizeof(told[0]); i++)
		caller->gp[told[i]] = known[told[i]];
	forget_call(caller);
}

/* All of regs->gp is what the program has. */
void fetch_registers(struct uml_pt_regs *regs)
{
	if (regs->called_at)
		stop_userspace(regs->called_at);
}

/* The process's next notice, or false: it has stopped, with this status. */
static int await_notice(struct mm_id *mm_idp, struct seccomp_notif *notice, int *status)
{
	int n, pid = mm_idp->seat->pid;
	long err;

	for (;;) {
		memset(notice, 0, sizeof(*notice));
		err = next_notice(mm_idp->listener->fd, notice);
		if (!err && notice->pid == pid)
			return 1;
		if (err && err != -EINTR && err != -ENOENT)
			lost(pid, "gives no notice");
		child_stopped = 0;
		CATCH_EINTR(n = waitpid(pid, status, WUNTRACED | WNOHANG | __WALL));
		if (n < 0)
			lost(pid, "is not there");
		if (n)
			return 0;
	}
}

/*
 * Somebody else's signal stopped the process in a call of which nobody was told: the
 * program makes it anew.
 */
void repeat_call(struct uml_pt_regs *regs)
{
	if ((long) regs->gp[HOST_ORIG_AX] < 0 || regs->gp[HOST_AX] != -512UL)
		return;
	regs->gp[HOST_AX] = regs->gp[HOST_ORIG_AX];
	regs->gp[HOST_IP] -= 2;
}

/* Whether the process goes on by an answer to its call, which it is given then. */
int answer_call(struct mm_id *mm_idp, struct uml_pt_regs *regs)
{
	struct seat *seat = mm_idp->seat;
	struct seccomp_notif_resp answer = {
		.id = seat->call_id,
		.val = regs->gp[HOST_AX],
	};

	/* The host takes answers from -516 to -512 for its own. */
	if (!seat->is_calling || seat->caller != regs ||
	    (answer.val <= -512 && answer.val >= -516))
		return 0;
	if (ioctl(mm_idp->listener->fd, SECCOMP_IOCTL_NOTIF_SEND, &answer)) {
		if (errno != ENOENT)
			lost(seat->pid, "takes no answer");
		/* Somebody froze or stopped it, and its waiting ended: ptrace it is. */
		return 0;
	}
	seat->is_calling = 0;
	forget_call(regs);
	return 1;
}

/* Wait for a call, and put it into regs; or for a stop: its status, and false. */
int await_call(struct mm_id *mm_idp, struct uml_pt_regs *regs, int *status)
{
	struct seat *seat = mm_idp->seat;
	struct seccomp_notif notice;
	const __u64 *args = notice.data.args;

	if (!await_notice(mm_idp, &notice, status))
		return 0;
	regs->gp[HOST_DI] = args[0];
	regs->gp[HOST_SI] = args[1];
	regs->gp[HOST_DX] = args[2];
	regs->gp[HOST_R10] = args[3];
	regs->gp[HOST_R8] = args[4];
	regs->gp[HOST_R9] = args[5];
	regs->gp[HOST_IP] = notice.data.instruction_pointer;
	regs->gp[HOST_ORIG_AX] = (long) notice.data.nr;
	regs->gp[HOST_AX] = -ENOSYS;
	regs->called_at = seat;
	seat->caller = regs;
	seat->call_id = notice.id;
	seat->is_calling = 1;
	return 1;
}

/* One more process of an address space, and the one that runs next; 0, or -ENOMEM. */
int add_seat(struct mm_id *mm_idp, int pid)
{
	struct seat *seat = uml_kmalloc(sizeof(*seat), UM_GFP_ATOMIC);

	if (!seat) {
		os_kill_ptraced_process(pid, 1);
		return -ENOMEM;
	}
	*seat = ((struct seat) { .pid = pid, .next = mm_idp->seats });
	mm_idp->seats = mm_idp->seat = seat;
	return 0;
}

void remove_seats(struct mm_id *mm_idp)
{
	struct seat *seat;

	while ((seat = mm_idp->seats)) {
		mm_idp->seats = seat->next;
		if (seat->fp_owner)
			fp_forget(seat->fp_owner);
		if (seat->caller)
			forget_call(seat->caller);
		os_kill_ptraced_process(seat->pid, 1);
		kfree(seat);
	}
}

/*
 * Stub code that makes one more process of the address space: clone(rdi, rsi). The new
 * one ends with its kernel (r12), takes faults on the stub's own stack (at r13, of r14
 * bytes; a new process has none), and stops traced, as its maker does.
 */
asm(".pushsection .__syscall_stub, \"ax\"\n"
    ".globl stub_share\n"
    "stub_share:\n\t"
    "movl $" STRING(__NR_clone) ", %eax\n\t"
    "syscall\n\t"
    "testq %rax, %rax\n\t"
    "jnz 1f\n\t"
    "movl $" STRING(__NR_prctl) ", %eax\n\t"
    "movl $" STRING(PR_SET_PDEATHSIG) ", %edi\n\t"
    "movl $9, %esi\n\t"
    "syscall\n\t"
    "movl $" STRING(__NR_getppid) ", %eax\n\t"
    "syscall\n\t"
    "cmpq %r12, %rax\n\t"
    "jne 2f\n\t"
    "pushq %r14\n\t"
    "pushq $0\n\t"
    "pushq %r13\n\t"
    "movl $" STRING(__NR_sigaltstack) ", %eax\n\t"
    "movq %rsp, %rdi\n\t"
    "xorl %esi, %esi\n\t"
    "syscall\n\t"
    "movl $" STRING(__NR_ptrace) ", %eax\n\t"
    "xorl %edi, %edi\n\t"	/* PTRACE_TRACEME */
    "syscall\n"
    "1:\tint3\n"
    "2:\tmovl $" STRING(__NR_exit) ", %eax\n\t"
    "syscall\n\t"
    ".popsection");

extern const char stub_share[], __syscall_stub_start[];
extern void wait_stub_done(int pid);

/* One more process of an address space: its number, or an error. */
static int share_context(struct seat *maker)
{
	unsigned long regs[MAX_REG_NR];
	unsigned long stack_bytes = STUB_DATA_PAGES * UM_KERN_PAGE_SIZE;
	int pid;

	stop_userspace(maker);
	if (ptrace_getregs(maker->pid, regs))
		lost(maker->pid, "does not give its registers");
	regs[HOST_IP] = STUB_CODE + (stub_share - __syscall_stub_start);
	regs[HOST_ORIG_AX] = -1;
	regs[HOST_DI] = CLONE_VM | CLONE_PARENT | CLONE_FILES | SIGCHLD;
	regs[HOST_SI] = STUB_DATA + stack_bytes - UM_KERN_PAGE_SIZE / 2;
	regs[HOST_DX] = regs[HOST_R10] = regs[HOST_R8] = 0;
	regs[HOST_R12] = os_getpid();
	regs[HOST_R13] = STUB_DATA;
	regs[HOST_R14] = stack_bytes;
	if (ptrace_setregs(maker->pid, regs) || ptrace(PTRACE_CONT, maker->pid, 0, 0))
		lost(maker->pid, "does not go on");
	wait_stub_done(maker->pid);
	if (ptrace_getregs(maker->pid, regs))
		lost(maker->pid, "does not give its registers");
	pid = regs[HOST_AX];
	if (pid < 0)
		return pid;
	wait_stub_done(pid);
	if (ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL))
		lost(pid, "is not traced");
	return pid;
}

/* As many threads of a program keep their registers; those of more take turns. */
#define MAX_SEATS 64

/* The thread goes on where its registers are, or where nobody's are: in which process. */
int take_seat(struct mm_id *mm_idp, struct uml_pt_regs *regs)
{
	struct seat *seat = regs->called_at ? regs->called_at : regs->fp_at;
	int pid, n = 0;

	if (!mm_idp->listener || seat == mm_idp->seat)
		return mm_idp->seat->pid;
	if (!seat && !mm_idp->seat->caller && !mm_idp->seat->fp_owner)
		return mm_idp->seat->pid;

	if (!seat)
		for (seat = mm_idp->seats; seat; seat = seat->next, n++)
			if (!seat->caller && !seat->fp_owner)
				break;
	if (seat) {
		mm_idp->seat = seat;
	} else if (n < MAX_SEATS) {
		pid = share_context(mm_idp->seat);
		if (pid > 0)
			add_seat(mm_idp, pid);
	}
	return mm_idp->seat->pid;
}
