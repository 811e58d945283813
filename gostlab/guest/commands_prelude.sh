# What every commands.sh begins with (gostlab.guest.command_log writes the variables before it).
# shellcheck shell=sh disable=SC2154

say() {
    printf 'commands.sh: %s\n' "$*" >&2
}

refuse() {
    say "$*"
    exit 2
}

now() {
    date +%s.%N
}

since_start() {
    awk -v now="$(now)" -v start="$START" 'BEGIN { printf "%.6f\n", now - start }'
}

# -- what it needs

check_needs() {
    [ "$(id -u)" -eq 0 ] || refuse "needs root, for network namespaces: sudo sh $0"
    for program in $PROGRAMS awk ip ss tc sysctl ethtool ping unshare; do
        command -v "$program" >/dev/null ||
            refuse "$program is missing: install it" \
                "(Debian: iproute2, ethtool, iputils-ping, iperf3, wget, nginx)," \
                "or ./lab replay the run: programs in /usr/lib/gostlab are of its own root"
    done
    unshare -n tc qdisc add dev lo root netem delay 1ms 2>/dev/null ||
        refuse "this kernel ($(uname -r)) has no netem (sch_netem), or gives root no namespace"
    check_seed
    for cc in $CONGESTION_CONTROLS; do
        check_congestion_control "$cc"
    done
    for node in $NODES; do
        [ ! -e "/run/netns/$node" ] ||
            refuse "a network namespace $node exists: if nothing needs it, ip netns delete $node"
    done
    printf '%s\n' "$HASHES" | while read -r sha256 program; do
        [ -n "$sha256" ] || continue
        check_hash "$sha256" "$program"
    done
}

check_seed() {
    [ -z "$SEEDLESS" ] || return 0
    tc qdisc add dev lo root netem help 2>&1 | grep -qw seed ||
        refuse "$(tc -V) knows no seed of netem (6.6 and newer do)." \
            "Put one that does first in PATH, or go" \
            "without: SEEDLESS=1 sh $0 (losses and jitter then fall otherwise than they did)"
}

check_congestion_control() {
    known=/proc/sys/net/ipv4/tcp_available_congestion_control
    allowed=/proc/sys/net/ipv4/tcp_allowed_congestion_control
    grep -qw "$1" "$known" || modprobe -q "tcp_$1" 2>/dev/null || true
    grep -qw "$1" "$known" ||
        refuse "congestion control $1: this kernel ($(uname -r)) has $(cat "$known")"
    grep -qw "$1" "$allowed" ||
        refuse "congestion control $1: this machine allows namespaces only" \
            "$(cat "$allowed"): add it with" \
            "sysctl -w net.ipv4.tcp_allowed_congestion_control='$(cat "$allowed") $1'"
}

check_hash() {
    [ -x "$2" ] || refuse "$2 is not there: the tunnel's program in the run (SHA-256 $1)"
    [ "$(sha256sum "$2" | cut -d ' ' -f 1)" = "$1" ] || [ -n "$ANY_PROGRAM" ] ||
        refuse "$2 is another program than in the run (SHA-256 $1): ANY_PROGRAM=1 sh $0 takes it"
}

# -- what it makes, and takes away again: that, and nothing else

MADE_NAMESPACES=
MADE_FOLDERS=

namespace() {
    ip netns add "$1"
    MADE_NAMESPACES="$MADE_NAMESPACES $1"
    ip -n "$1" link set lo up
}

make_folder() {
    [ ! -d "$1" ] || return 0
    top=$1
    while [ ! -d "$(dirname "$top")" ]; do
        top=$(dirname "$top")
    done
    mkdir -p "$1"
    MADE_FOLDERS="$MADE_FOLDERS$top
"
}

clean_up() {
    trap - EXIT INT TERM
    for node in $MADE_NAMESPACES; do
        end_processes "$node"
        ip netns delete "$node" || true
    done
    printf '%s' "$MADE_FOLDERS" | while IFS= read -r folder; do
        rm -rf "$folder"
    done
}

end_processes() {
    signal=TERM
    for _ in 1 2 3 4 5; do
        inside=$(ip netns pids "$1")
        [ -n "$inside" ] || return 0
        # shellcheck disable=SC2086
        kill -s "$signal" $inside 2>/dev/null || true
        sleep 0.2
        signal=KILL
    done
}

# -- running something on a node

on() {
    node=$1
    shift
    if [ -n "$SEEDLESS" ]; then
        case " $* " in
        *" tc qdisc "*)
            # shellcheck disable=SC2046
            set -- $(printf '%s ' "$@" | sed 's/ seed [0-9]*//')
            ;;
        esac
    fi
    ip netns exec "$node" "$@"
}

# charge COST: what the next program's calls cost on the lab's own virtual clock. Other kernels
# charge nothing.
COST=
charge() {
    COST=$1
}

# paying NODE COMMAND…: run it there at its cost.
paying() {
    node=$1
    shift
    if [ -n "$COST" ] && [ -e /proc/self/net/program_cost ]; then
        # shellcheck disable=SC2016
        set -- sh -c 'echo "$0" >/proc/self/net/program_cost && exec "$@"' "$COST" "$@"
    fi
    ip netns exec "$node" "$@"
}

# serve NODE REPORT COMMAND…: leave it running until the load is over.
SERVERS=
serve() {
    node=$1
    report=$2
    shift 2
    paying "$node" "$@" >"$report" 2>&1 </dev/null &
    SERVERS="$SERVERS $!"
    COST=
}

# listening NODE PROTOCOL PORT: wait until somebody does.
listening() {
    flags=-Hltn
    [ "$2" = tcp ] || flags=-Hlun
    tries=0
    until [ -n "$(ip netns exec "$1" ss "$flags" "sport = :$3")" ]; do
        tries=$((tries + 1))
        if [ "$tries" -gt 100 ]; then
            say "$1: nothing listens on $2 port $3"
            exit 1
        fi
        # Most listen at once; one that does not is asked less often after a second, for ten in all.
        if [ "$tries" -le 50 ]; then sleep 0.02; else sleep 0.2; fi
    done
}

load_begins() {
    START=$(now)
}

# at SECONDS: wait until so long after the load began.
at() {
    sleep "$(awk -v now="$(now)" -v start="$START" -v at="$1" \
        'BEGIN { left = start + at - now; printf "%.6f", (left > 0 ? left : 0) }')"
}

# flow NAME NODE REPORT COMMAND…: start it, and write down when it began and ended, and how.
FLOWS=
flow() {
    (
        name=$1
        node=$2
        report=$3
        shift 3
        began=$(since_start)
        status=0
        paying "$node" "$@" >"$report" 2>&1 </dev/null || status=$?
        printf '%s %s %s %s\n' "$name" "$began" "$(since_start)" "$status" >>flows.txt
    ) &
    FLOWS="$FLOWS $!"
    COST=
}

load_ends() {
    for process in $FLOWS; do
        wait "$process" || true
    done
    sleep 0.5
    for process in $SERVERS; do
        kill "$process" 2>/dev/null || true
        wait "$process" || true
    done
    failed=$(awk '$4 != 0 { printf " %s (exit status %s)", $1, $4 }' flows.txt)
    if [ -n "$failed" ]; then
        say "failed:$failed; their reports say why"
        exit 1
    fi
}

# goodput NAME KIND REPORT: what the flow got, as its own report says.
goodput() {
    case $2 in
    http)
        awk -v name="$1" -v size="$(sed -n 's/.*\[\([0-9]*\)\/[0-9]*\].*/\1/p' "$3")" \
            '$1 == name { printf "%s: %.6g Mbit/s\n", name, 8 * size / ($3 - $2) / 1e6 }' flows.txt
        ;;
    short) echo "$1: $(wc -l <"$3") downloads, in $3" ;;
    ping) echo "$1: round trips in $3" ;;
    command) echo "$1: what it said is in $3" ;;
    *)
        within=sum_received
        # Up to 3.9 iperf3 has no such sum of UDP.
        [ "$2" = tcp ] || grep -q '"sum_received"' "$3" || within=sum
        counted=$3
        # The client gave up on its server's results, which the server has all the same.
        ! grep -q 'unable to receive results' "$3" || counted=${3%.json}-server.json
        tr -d '",' <"$counted" | awk -v name="$1" -v within="$within" '
            $1 == "end:" { over = 1 }
            over && $1 ~ /^sum/ { now = $1 }
            now == within ":" && $1 == "bits_per_second:" && !got { got = $2 }
            now == "sum_sent:" && $1 == "retransmits:" { sent_again = $2 }
            now == "sum:" && $1 == "lost_packets:" { lost = $2 }
            END {
                printf "%s: %.6g Mbit/s", name, got / 1e6
                if (sent_again != "") printf ", Retr %d", sent_again
                if (lost != "") printf ", %d datagrams lost", lost
                print ""
            }'
        ;;
    esac
}

SEEDLESS=${SEEDLESS:-}
ANY_PROGRAM=${ANY_PROGRAM:-}
check_needs
OUT=${1:-$(mktemp -d "${TMPDIR:-/tmp}/gostlab-replay.XXXXXX")}
mkdir -p "$OUT"
cd "$OUT" || exit 1
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
: >flows.txt
