# SPDX-License-Identifier: MIT
"""`make test-vagrant`: `vagrant up`, done for real, and what README types in the machine.

It makes a box of Debian 12's packages, with Debian's own kernel and this machine's own way to
packages (apt's mirror and proxies, certificates, Go's module proxy), and brings it up with libvirt
and QEMU. Where KVM does not run that kernel it is emulated: a build of the sandbox's kernel would
take hours in there, so the box then brings the packages and this machine's own parts, for all users
as `./lab setup --system` puts them, and the experiments are smaller.

Whatever runs is in namespaces of processes, mounts and networks, with a libvirtd of its
own, and writes into one temporary folder. So the machine's Vagrant, libvirt and network stay as
they are, and nothing outlives the command. The network in there is vagrant-libvirt's usual one;
its way out is slirp4netns.
"""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(CHECKOUT))

from gostlab.install import apt, locate, shared_install  # noqa: E402
from gostlab.install import main as steps  # noqa: E402

BOX = "gostlab/bookworm64"
# What debian/bookworm64 has beside Debian's important packages.
PACKAGES = "linux-image-amd64,openssh-server,sudo,rsync,ca-certificates"
PROGRAMS = {
    "vagrant": "vagrant vagrant-libvirt",
    "libvirtd": "libvirt-daemon-system",
    "qemu-system-x86_64": "qemu-system-x86",
    "qemu-img": "qemu-utils",
    "mmdebstrap": "mmdebstrap",
    "slirp4netns": "slirp4netns",
    "dnsmasq": "dnsmasq-base",
    "iptables": "iptables",
    "rsync": "rsync",
}
# libvirtd runs as root in namespaces that are the test's own: it needs no guards of its own.
QEMU_CONF = """\
user = "root"
group = "root"
security_driver = "none"
namespaces = []
cgroup_controllers = []
remember_owner = 0
stdio_handler = "file"
"""
# Direct boot: no boot loader has to be written into the image. The CPU is one that an emulator and
# a KVM inside a virtual machine can give, too, and has XSAVE, which the sandbox needs.
BOX_VAGRANTFILE = """\
Vagrant.configure("2") do |config|
  config.vm.boot_timeout = 1800
  config.ssh.connect_timeout = 60
  config.vm.provider "libvirt" do |machine|
    here = File.dirname(__FILE__)
    machine.kernel = File.join(here, "vmlinuz")
    machine.initrd = File.join(here, "initrd.img")
    machine.cmd_line = "root=/dev/vda rw net.ifnames=0"
    machine.driver = "DRIVER"
    machine.cpu_mode, machine.cpu_model = "custom", "SandyBridge"
  end
end
"""
FILES = {
    "etc/fstab": "/dev/vda / ext4 errors=remount-ro 0 1\n",
    "etc/hostname": "debian\n",
    "etc/hosts": "127.0.0.1 localhost\n",
    "etc/network/interfaces": "auto lo eth0\niface lo inet loopback\niface eth0 inet dhcp\n",
    "etc/sudoers.d/vagrant": "vagrant ALL=(ALL) NOPASSWD: ALL\n",
}
# How Vagrant calls KVM and emulation.
KVM, EMULATED = "kvm", "qemu"
TOPO = "sudo python topo.py --quick"


def commands(driver: str) -> dict[str, tuple[int, ...]]:
    """What is typed in the machine, and its good exit codes; 3: the real clock spoilt some runs."""
    one = "--set streams=1 --set tunnel=gost+ws"
    small = f"{one} --set rate=2mbit --set duration=5s --set cc=cubic"
    try_small, topo_small, lossy = (
        ("", "", one) if driver == KVM else ("--rate 2mbit --duration 2s", small, small)
    )
    return {
        "./lab doctor": (0,),
        f"./lab try --loss 0%,1% --cc cubic,bbr {try_small}": (0,),
        f"{TOPO} {topo_small}": (0, 3),
        "test -s results/report/report.html": (0,),
        f"{TOPO} {lossy} --set loss=1% --results results/lossy": (0, 3),
        # Debian 12's kernel is older than netem's seed: no run fails, and each one's verdict says
        # so.
        "! grep -rL 'no seed of netem' results/lossy --include=fidelity.json | grep .": (0,),
        '! grep -rL \'"outcome": "ok"\' results --include=status.json | grep .': (0,),
    }


def main(argv: Sequence[str]) -> None:
    if argv:
        in_namespaces(Path(argv[0]))
        return
    missing = [packages for name, packages in PROGRAMS.items() if shutil.which(name) is None]
    if missing:
        print(f"test-vagrant: skipped: it needs apt-get install {' '.join(missing)}")
        return
    if os.geteuid() != 0:
        sys.exit(
            "test-vagrant: only root can make a box and a network for it: sudo make test-vagrant"
        )
    with tempfile.TemporaryDirectory(prefix="gostlab-vagrant-", dir="/var/tmp") as name:
        folder = Path(name)
        began = time.monotonic()
        driver = make_box(folder)
        told = {"driver": driver, "box_s": time.monotonic() - began}
        (folder / "told.json").write_text(json.dumps(told), encoding="utf-8")
        with namespaces(folder) as inner:
            status = inner.wait()
    sys.exit(status)


# -- the box


def make_box(folder: Path) -> str:
    """Debian 12 as Vagrant takes it: an image, a kernel and how to boot it. Returns the driver."""
    mirror = apt.find_mirror()
    if mirror is None:
        sys.exit("test-vagrant: this machine's apt has no mirror of Debian's to make a box from")
    root = folder / "root"
    ways = [line for line in output_of("apt-config", "dump").splitlines() if is_transport(line)]
    run(
        "mmdebstrap",
        "--variant=important",
        f"--include={PACKAGES}",
        *(f"--aptopt={line}" for line in ways),
        "bookworm",
        root,
        f"deb {mirror.uri} bookworm main",
    )
    kernel, initrd = (next((root / "boot").glob(f"{kind}-*")) for kind in ("vmlinuz", "initrd.img"))
    driver = KVM if kvm_runs(kernel) else EMULATED
    if driver == EMULATED:
        print("KVM does not run Debian's kernel here: emulated, with this machine's parts")
        bring_parts(root)
    for name, text in FILES.items():
        (root / name).write_text(text, encoding="utf-8")
    (root / "etc/environment").write_text(environment(), encoding="utf-8")
    for certificate in Path("/usr/local/share/ca-certificates").glob("*.crt"):
        shutil.copy(certificate, root / "usr/local/share/ca-certificates")
    run("chroot", root, "update-ca-certificates")
    run("chroot", root, "useradd", "--create-home", "--shell", "/bin/bash", "vagrant")
    # Vagrant's well-known key, which it replaces at the first `up`.
    run("vagrant", "box", "list", env=vagrant_environ(folder))
    insecure = folder / "home/insecure_private_key"
    authorized = root / "home/vagrant/.ssh/authorized_keys"
    authorized.parent.mkdir(mode=0o700)
    authorized.write_text(output_of("ssh-keygen", "-y", "-f", insecure), encoding="utf-8")
    run("chroot", root, "chown", "-R", "vagrant:vagrant", "/home/vagrant")

    raw, image = folder / "disk.raw", folder / "box.img"
    run("mke2fs", "-q", "-t", "ext4", "-d", root, raw, "20G")
    run("qemu-img", "convert", "-O", "qcow2", raw, image)
    with tarfile.open(folder / "box.tar", "w") as box:
        box.add(image, "box.img")
        box.add(kernel, "vmlinuz")
        box.add(initrd, "initrd.img")
        about = json.dumps({"provider": "libvirt", "format": "qcow2", "virtual_size": 20})
        vagrantfile = BOX_VAGRANTFILE.replace("DRIVER", driver)
        for name, text in (("metadata.json", about), ("Vagrantfile", vagrantfile)):
            (folder / name).write_text(text, encoding="utf-8")
            box.add(folder / name, name)
    shutil.rmtree(root)
    raw.unlink()
    image.unlink()
    return driver


def kvm_runs(kernel: Path) -> bool:
    """Whether KVM gets a kernel as far as its first line: one in a virtual machine may run none."""
    if not os.access("/dev/kvm", os.W_OK):
        return False
    words = (
        "timeout 60 qemu-system-x86_64 -accel kvm -cpu SandyBridge -m 512 -no-reboot -display none"
    )
    console = "console=ttyS0 earlyprintk=ttyS0 panic=-1"  # it ends where it finds no root
    said = subprocess.run(
        [*words.split(), "-serial", "stdio", "-kernel", kernel, "-append", console],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ).stdout
    return b"Linux version" in said


def bring_parts(root: Path) -> None:
    """What takes an emulated machine hours: the packages, and what set-up has built here."""
    # `python` is left for the set-up in the machine to bring.
    wanted = [name for name in steps.wanted_packages() if name != "python-is-python3"]
    shutil.copy("/etc/resolv.conf", root / "etc/resolv.conf")
    run("chroot", root, "apt-get", "--quiet", "update")
    install = "apt-get --quiet --yes --no-install-recommends install"
    run("chroot", root, "env", "DEBIAN_FRONTEND=noninteractive", *install.split(), *wanted)
    shared = root / shared_install.DEFAULT.relative_to("/")
    for part in shared_install.PARTS:
        if (locate.cache_folder() / part).is_dir():
            shutil.copytree(locate.cache_folder() / part, shared / part, symlinks=True)
    run("chown", "-R", "root:root", shared)
    shared_install.seal_folder(shared)


def is_transport(line: str) -> bool:
    """Whether a line of apt's configuration says how its mirror is reached."""
    return apt.TRANSPORT.match(line) is not None


def environment() -> str:
    """How programs find their registries here, as /etc/environment."""
    names = [f"{each}_proxy" for each in ("http", "https", "no")]
    names += [name.upper() for name in names] + ["PIP_INDEX_URL"]
    found = {name: os.environ[name] for name in names if name in os.environ}
    if shutil.which("go"):
        found |= {name: output_of("go", "env", name).strip() for name in ("GOPROXY", "GOSUMDB")}
    return "".join(f"{name}={value}\n" for name, value in found.items())


# -- the namespaces


@contextmanager
def namespaces(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """This file once more, in namespaces with a way out; what it started ends with it."""
    # A shell as first process: it reaps whatever loses its parent, as libvirt's QEMU does.
    again = [sys.executable, __file__, str(folder)]
    with_me = "setpriv --pdeathsig KILL"
    unshare = f"{with_me} unshare --net --mount --pid --fork --kill-child=KILL --mount-proc".split()
    with subprocess.Popen(
        [*unshare, "sh", "-c", '"$@"; exit $?', "sh", *again], stdin=subprocess.PIPE, text=True
    ) as inner:
        slirp = None
        try:
            own = os.readlink("/proc/self/ns/net")
            while os.readlink(f"/proc/{inner.pid}/ns/net") == own:
                time.sleep(0.05)
            ready, told = os.pipe()
            words = f"{with_me} slirp4netns --configure --mtu=1500 --disable-host-loopback --ready-fd={told}"
            slirp = subprocess.Popen(
                [*words.split(), str(inner.pid), "tap0"],
                pass_fds=[told],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            os.close(told)
            os.read(ready, 1)
            assert inner.stdin is not None
            inner.stdin.write("the way out is there\n")
            inner.stdin.flush()
            yield inner
        finally:
            for process in (inner, slirp):
                if process is not None:
                    process.kill()
                    process.wait()


def in_namespaces(folder: Path) -> None:
    """Start libvirtd, then Vagrant, then what a user types."""
    sys.stdin.readline()
    resolver = folder / "resolv.conf"
    resolver.write_text("nameserver 10.0.2.3\n", encoding="utf-8")  # slirp4netns's
    run("mount", "--bind", resolver, os.path.realpath("/etc/resolv.conf"))
    run("mount", "-t", "sysfs", "sysfs", "/sys")  # this network's bridges
    for place in ("/etc/libvirt", "/run/libvirt", "/var/lib/libvirt", "/var/cache/libvirt"):
        own = folder / "libvirt" / place[1:]
        own.mkdir(parents=True)
        Path(place).mkdir(parents=True, exist_ok=True)
        run("mount", "--bind", own, place)
    Path("/etc/libvirt/qemu.conf").write_text(QEMU_CONF, encoding="utf-8")
    Path("/etc/libvirt/libvirtd.conf").write_text('auth_unix_rw = "none"\n', encoding="utf-8")
    with (folder / "libvirtd.log").open("w") as log:
        subprocess.Popen(["libvirtd", "--pid-file", folder / "pid"], stdout=log, stderr=log)
    while not Path("/run/libvirt/libvirt-sock").exists():
        time.sleep(0.1)

    told = json.loads((folder / "told.json").read_text(encoding="utf-8"))
    times = {"the box": told["box_s"]}
    environ = vagrant_environ(folder)
    run("vagrant", "box", "add", "--name", BOX, folder / "box.tar", env=environ)
    (folder / "box.tar").unlink()
    try:
        times["vagrant up"] = timed(["vagrant", "up"], environ, (0,))
        for command, good in commands(told["driver"]).items():
            argv = ["vagrant", "ssh", "-c", f"cd /vagrant && {command}"]
            times[command] = timed(argv, environ, good)
    except subprocess.CalledProcessError as error:
        print((folder / "libvirtd.log").read_text(encoding="utf-8", errors="replace"))
        sys.exit(f"test-vagrant: exit code {error.returncode}: {error.cmd[-1]}")
    how = "KVM" if told["driver"] == KVM else "emulated"
    print(f"minutes, {how}, two CPUs:")
    for name, took_s in times.items():
        print(f"{took_s / 60:7.1f}  {name}")


def vagrant_environ(folder: Path) -> dict[str, str]:
    """Vagrant with a home of the test's own, and the checkout's Vagrantfile."""
    return {
        **os.environ,
        "VAGRANT_CWD": str(CHECKOUT),
        "VAGRANT_HOME": str(folder / "home"),
        "VAGRANT_DOTFILE_PATH": str(folder / "dot"),
        "VAGRANT_DEFAULT_PROVIDER": "libvirt",
        "VAGRANT_CHECKPOINT_DISABLE": "1",
        "GOSTLAB_BOX": BOX,
    }


# -- commands


def timed(argv: list[str], environ: dict[str, str], good: Sequence[int]) -> float:
    """Run a command with its output shown; how long it took, seconds. Raises CalledProcessError."""
    print(f"$ {argv[-1]}", flush=True)
    began = time.monotonic()
    done = subprocess.run(argv, env=environ, stdin=subprocess.DEVNULL)
    took_s = time.monotonic() - began
    print(f"exit code {done.returncode}, {took_s:.0f} s", flush=True)
    if done.returncode not in good:
        raise subprocess.CalledProcessError(done.returncode, argv)
    return took_s


def run(*argv: str | Path, env: dict[str, str] | None = None) -> None:
    print(f"$ {' '.join(map(str, argv))}", flush=True)
    subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, check=True)


def output_of(*argv: str | Path) -> str:
    return subprocess.run(argv, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    main(sys.argv[1:])
